"""A job that is kept for another seed answers what one made for that seed answers."""

import pytest

from dpsim import load_scenario, simulate
from dpsim.engine import KeptJobs, prepare, prepared_by

CASES = {
    "ring": [],
    "sharded": ["strategy.aggregation.kind=sharded"],
    "gossip, drawn pairs": ["strategy.aggregation={kind: gossip, graph: random-pairs}"],
    "servers, independent workers": [
        "strategy.aggregation.kind=parameter-server",
        "strategy.sync.kind=ssp",
    ],
    "measured step": ["calibration={nodes: 1, step_time: 300 ms, source: here}"],
    "averaging": ["strategy.sync={kind: local-sgd, every: 4}"],
    # The other traffic makes every message an event of its own: two GPUs a node have few.
    "slow links": [
        "cluster.gpus_per_node=2",
        "run.steps=3",
        "disturbance.background=[{source: 0, destination: 3}]",
    ],
}


def scenario(overrides, *more):
    small = ["cluster.nodes=2", "run.steps=6", "run.warmup=1"]
    return load_scenario("scenarios/quickstart.yaml", [*small, *overrides, *more])


def reported(result):
    return {key: value for key, value in result.to_json().items() if key != "provenance"}


@pytest.mark.parametrize("case", CASES)
def test_seeds_answer_as_ever(case):
    jobs = KeptJobs()
    for seed in (0, 1, 0):
        requested = scenario(CASES[case], f"run.seed={seed}")
        with prepared_by(jobs.prepare):
            kept = reported(simulate(requested))
        assert kept == reported(simulate(requested))


def test_what_seeds_share_is_made_once(monkeypatch):
    made = []

    def counted(requested, **rest):
        made.append(requested)
        return prepare(requested, **rest)

    monkeypatch.setattr("dpsim.engine.kept_jobs.prepare", counted)
    jobs = KeptJobs()
    for seed in range(4):
        job = jobs.prepare(scenario([], f"run.seed={seed}", f"name=seed-{seed}"))
        assert (job.scenario.run.seed, job.setting.seed) == (seed, seed)
        assert job.scenario.name == f"seed-{seed}"
    assert len(made) == 1
    jobs.prepare(scenario([], "workload.batch_per_gpu=32"))
    jobs.prepare(scenario([], "cluster.nodes=1"))
    jobs.prepare(scenario([]))  # the first of three: two are kept
    assert len(made) == 4


def test_a_default_algorithm_is_not_a_requested_one():
    """NCCL chooses for itself what it would else be held to."""
    jobs = KeptJobs()
    held, free = (
        [f"strategy.aggregation={{kind: allreduce{algorithm}}}", "cluster.node=dgx-h100"]
        for algorithm in (", algorithm: ring", "")
    )
    for overrides in (held, free):
        with prepared_by(jobs.prepare):
            kept = reported(simulate(scenario(overrides)))
        assert kept == reported(simulate(scenario(overrides)))


def test_scenarios_on_one_cluster_share_it_and_the_models_of_its_collectives():
    jobs = KeptJobs()
    first = jobs.prepare(scenario([], "strategy.overlap={kind: wfbp}"))
    same = jobs.prepare(scenario([], "strategy.overlap={kind: sequential}", "run.steps=4"))
    other = jobs.prepare(scenario([], "strategy.aggregation.algorithm=butterfly"))
    assert same.cluster is other.cluster is first.cluster
    assert same.collectives == first.collectives
    assert other.collectives["all-reduce"] != first.collectives["all-reduce"]
    elsewhere = jobs.prepare(scenario([], "cluster.network.nic=100GbE"))
    assert elsewhere.cluster is not first.cluster
    assert elsewhere.collectives["all-reduce"] != first.collectives["all-reduce"]


@pytest.mark.parametrize("kind", ["auto", "rounds", "flows"])
def test_strategies_answer_as_ever_on_a_cluster_that_is_kept(kind):
    jobs = KeptJobs()
    few = ["run.steps=2", f"run.network_model={kind}"]
    for strategy in ("algorithm=ring", "algorithm=auto", "kind=sharded", "algorithm=butterfly"):
        requested = scenario([f"strategy.aggregation.{strategy}", *few])
        with prepared_by(jobs.prepare):
            kept = reported(simulate(requested))
        assert kept == reported(simulate(requested))


def test_a_collective_that_is_drawn_is_drawn_anew():
    jobs = KeptJobs()
    gossip = ["strategy.aggregation={kind: gossip, graph: random-pairs}"]
    models = [jobs.prepare(scenario(gossip, f"run.seed={seed}")).collectives for seed in (0, 1)]
    assert models[0] is not models[1]
