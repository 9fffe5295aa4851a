"""Events are the reference: where the vector path says that it is exact, both say the same."""

import json
from pathlib import Path

import numpy as np
import pytest
from random_jobs import Drawing

from dpsim import simulate
from dpsim.base.errors import DpsimError
from dpsim.engine import Steps, bytes_in_step, exact_for, slow_downs
from dpsim.engine.events import run_events
from dpsim.engine.events.simulated_collectives import SimulatedCollective
from dpsim.engine.vector_engine import run_vector
from dpsim.report.text.tables import run_notes

PARTS = ("compute", "exposed_comm", "straggler_wait", "overlapped_comm", "input", "encode")
CASES = 60


def claimed_exact(folder, seed, drawing=Drawing):
    """The first job that is drawn from ``seed`` for which the vector path says that it is exact."""
    drawing = drawing(folder, seed)
    while True:
        job = drawing.job()
        if exact_for(job) is None:
            return job


class HybridDrawing(Drawing):
    """Jobs whose shard groups hold replicas, which meet on a communicator of their own."""

    def _aggregation(self):
        return {**self._sharded(), "shard_group": self._one(["node", "node", 2, 4])}

    def job(self):
        while True:
            job = super().job()
            if any(call.follows for calls in job.calls_of.values() for call in calls):
                return job


def by_both(job, monkeypatch):
    """The steps by either engine, and the bytes that events sent."""
    sent = []
    opened = SimulatedCollective.open

    def counted(line, group, span):
        sent.append(line.groups[group].model.traffic(line.nbytes).total)
        return opened(line, group, span)

    monkeypatch.setattr(SimulatedCollective, "open", counted)
    factors = slow_downs(job)
    vector = run_vector(job, factors, lambda done: None)
    return vector, run_events(job, factors, lambda done: None), sum(sent)


def assert_equal(job, vector: Steps, events: Steps, sent):
    scale = vector.step.mean()
    for part in PARTS:
        np.testing.assert_allclose(
            getattr(events, part), getattr(vector, part), rtol=1e-9, atol=1e-9 * scale, err_msg=part
        )
    for counts in ("clock_gap", "versions"):
        np.testing.assert_array_equal(getattr(events, counts), getattr(vector, counts), counts)
    assert sent == sum(bytes_in_step(job, step) for step in range(len(vector.step)))


@pytest.mark.parametrize("seed", range(CASES))
def test_both_engines_agree_where_the_vector_path_says_that_it_is_exact(
    tmp_path, monkeypatch, seed
):
    job = claimed_exact(tmp_path, seed)
    assert_equal(job, *by_both(job, monkeypatch))


@pytest.mark.parametrize("seed", range(15))
def test_both_engines_agree_on_hybrid_sharding(tmp_path, monkeypatch, seed):
    job = claimed_exact(tmp_path, seed, HybridDrawing)
    assert_equal(job, *by_both(job, monkeypatch))


@pytest.mark.wide
@pytest.mark.parametrize("block", range(12))
def test_both_engines_agree_in_many_cases(tmp_path, monkeypatch, block):
    """A hundred cases a block; in total they have every kind of every part."""
    for seed in range(CASES + block * 100, CASES + (block + 1) * 100):
        job = claimed_exact(tmp_path, seed)
        with monkeypatch.context() as patch:
            assert_equal(job, *by_both(job, patch))


BACKGROUND = {"background": [{"source": 0, "destination": 1}]}


@pytest.mark.parametrize("model", ["bundle", "flows", "auto"])
def test_other_traffic_takes_half_of_a_link(tiny, model):
    """Two all-reduces of 1 MB, a second each, in rounds of half a second: one way takes twice as long
    beside another flow, and the other way waits for it.
    """
    run = {"network_model": model}
    single, beside = (
        simulate(tiny(2, disturbance=disturbance, run=run)) for disturbance in ({}, BACKGROUND)
    )
    np.testing.assert_allclose(single.steps.exposed_comm, 2, rtol=1e-6)
    np.testing.assert_allclose(beside.steps.exposed_comm, 4, rtol=1e-6)
    assert (single.engine, beside.engine) == ("vector", "events")


@pytest.mark.parametrize(
    ("traffic", "share"), [({}, 0.5), ({"rate": "250 MB/s"}, 0.75)], ids=["endless", "limited"]
)
@pytest.mark.parametrize(("library", "model"), [("nccl", "bundle"), ("auto", "auto")])
def test_a_library_beside_other_traffic_is_slowed_by_its_fair_share(
    tiny, traffic, share, library, model
):
    """A ring of NCCL through two nodes of eight carries 2 x 15/16 x 2 MB over each card. For these it
    has its fair share beside another flow; what else NCCL takes stays as it is.
    """
    nccl = {"kind": "allreduce", "library": library, "algorithm": "ring"}
    card = {"rate": "1 GB/s", "latency": 0}
    network = {"fabric": "single-switch", "nic": card, "nics_per_node": 1}
    cluster = {"nodes": 2, "node": "dgx1-v100", "network": network}
    background = {"background": [{"source": 0, "destination": 8, **traffic}]}
    run = {"network_model": model}
    single, beside = (
        simulate(tiny(2, cluster=cluster, aggregation=nccl, disturbance=disturbance, run=run))
        for disturbance in ({}, background)
    )
    assert (single.engine, beside.engine) == ("vector", "events")
    assert beside.libraries[0].library == "nccl"
    on_links = 2 * 15 / 16 * 2e6 / 1e9  # s
    least = single.steps.exposed_comm.min()
    assert least > 1.02 * on_links
    later = beside.steps.exposed_comm - least
    np.testing.assert_allclose(later, on_links * (1 / share - 1), rtol=1e-6)


def test_a_slower_link_holds_up_what_is_under_way(tiny):
    """Half of the rate from 11 s on: of 2 s of communication, begun at 10 s, one takes two."""
    links = {"links": [{"at": "11 s", "link": "node0/*", "factor": 0.5}]}
    run = {"network_model": "bundle", "steps": 1}
    steps = simulate(tiny(2, disturbance=links, run=run)).steps
    np.testing.assert_allclose(steps.exposed_comm, 3, rtol=1e-6)


def test_the_vector_path_is_refused_where_it_can_say_nothing(tiny):
    servers = {"aggregation": "parameter-server", "sync": "asp"}
    with pytest.raises(DpsimError, match="must be auto or events where workers are asynchronous"):
        simulate(tiny(2, run={"engine": "vector"}, **servers))
    bundles = {"engine": "vector", "network_model": "bundle"}
    with pytest.raises(DpsimError, match="where bundles meet other traffic"):
        simulate(tiny(2, disturbance=BACKGROUND, run=bundles))


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({}, "vector, equal to the event engine within 1e-9 by test"),
        (
            {"run": {"engine": "events"}},
            "events; SimPy simulated compute and communication streams of 2 workers, each "
            "collective as a bundle",
        ),
        (
            {"run": {"engine": "events", "network_model": "flows"}},
            "events; SimPy simulated compute and communication streams of 2 workers, message by "
            "message",
        ),
        (
            {"aggregation": "parameter-server"},
            "vector, equal to the event engine within 1e-9 by test; SimPy simulated the messages of each "
            "collective",
        ),
        (
            {"aggregation": "parameter-server", "sync": "asp"},
            "events; SimPy simulated compute, pushes and pulls of 2 workers",
        ),
        (
            {"aggregation": "gossip", "sync": "asp"},
            "events; SimPy simulated compute and exchanges of 2 workers",
        ),
    ],
)
def test_a_run_says_which_engine_answered_and_what_simpy_simulated(tiny, given, message):
    assert f"engine      {message}" in run_notes(simulate(tiny(2, **given)))


def test_omitted_events_are_counted(tiny):
    requested = {"engine": "vector"}
    result = simulate(tiny(2, disturbance=BACKGROUND, run=requested))
    assert result.engine == "vector"
    assert "other traffic shares links" in result.to_json()["approximation"]
    assert "an approximation: each collective" in "\n".join(run_notes(result))
    assert simulate(tiny(2, run={"engine": "events"})).approximation is None


def test_both_engines_answer_the_same_on_the_command_line(dpsim):
    scenario = Path(__file__).parents[2] / "scenarios" / "quickstart.yaml"
    few = ("--set", "run.steps=3")
    answers = [
        json.loads(dpsim("run", scenario, *few, "--set", f"run.engine={engine}", "--json")[1])
        for engine in ("vector", "events")
    ]
    assert [answer.pop("engine") for answer in answers] == ["vector", "events"]
    del answers[0]["provenance"], answers[1]["provenance"]
    assert answers[0] == answers[1]
    code, _, message = dpsim("run", scenario, "--set", "run.engine=event")
    assert (code, "must be one of auto, vector, events" in message) == (2, True)
