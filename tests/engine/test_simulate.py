"""A whole scenario: laws that hold for every result."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpsim import load_scenario, simulate
from dpsim.base.errors import DpsimError
from dpsim.engine import PARTS
from dpsim.engine.preparation import prepare

QUICKSTART = Path(__file__).parents[2] / "scenarios" / "quickstart.yaml"


def quickstart(*overrides):
    return load_scenario(QUICKSTART, ["run.steps=4", "run.warmup=1", *overrides])


def test_sequential_step_is_compute_plus_the_exact_all_reduce(scenario):
    """Two ranks, one ring.

    2 rounds of half the gradient over the slowest link of the route; and its reduction.
    """
    tiny = scenario()
    job = prepare(tiny)
    half = 61_100_840 // 2 * 4  # bytes of half of AlexNet's gradient
    routes = job.cluster.routes(np.array([0]), np.array([1]))
    rate = job.cluster.capacities[routes.links[0][routes.links[0] >= 0]].min()
    gamma = 3 / tiny.cluster.accelerator.memory_bandwidth.value
    expected = job.times[0].step + 2 * (routes.latency[0] + half / rate) + half * gamma
    assert simulate(tiny).step_time_s["mean"] == pytest.approx(expected, rel=1e-12)


@given(
    nodes=st.integers(1, 3),
    sigma=st.floats(0, 0.5),
    algorithm=st.sampled_from(
        [
            "ring",
            "tree",
            "butterfly",
            "all-to-all",
            "master-worker",
            "round-robin",
            "halving-doubling",
        ]
    ),
    overlap=st.sampled_from(["sequential", "buckets"]),
    seed=st.integers(0, 2**32),
)
@settings(max_examples=25, deadline=None)
def test_parts_add_up_and_efficiency_is_their_ratio(nodes, sigma, algorithm, overlap, seed):
    result = simulate(
        quickstart(
            f"cluster.nodes={nodes}",
            f"disturbance.jitter.sigma={sigma!r}",
            f"strategy.aggregation.algorithm={algorithm}",
            f"strategy.overlap.kind={overlap}",
            f"run.seed={seed}",
        )
    )
    steps = result.steps
    np.testing.assert_allclose(
        steps.compute + steps.exposed_comm + steps.straggler_wait, steps.step, rtol=1e-12
    )
    assert sum(result.parts_s.values()) == pytest.approx(result.step_time_s["mean"], rel=1e-12)
    assert list(result.parts_s) == list(PARTS)
    assert 0 < result.scaling_efficiency <= 1
    assert (steps.exposed_comm >= 0).all()
    assert (steps.straggler_wait >= 0).all()
    assert result.step_time_s["low"] <= result.step_time_s["mean"] * (1 + 1e-12)
    assert result.step_time_s["mean"] <= result.step_time_s["high"] * (1 + 1e-12)


@given(rate=st.floats(1, 100), faster=st.floats(1, 4))
@settings(max_examples=20, deadline=None)
def test_more_bandwidth_never_makes_a_contention_free_step_slower(rate, faster):
    """Of ideal transfers: on a faster card NCCL may choose a protocol that takes longer."""

    def step(gbits):
        nic = f'{{fabric: single-switch, nics_per_node: 1, nic: {{rate: "{gbits!r} Gbit/s", latency: 5 us}}}}'
        return simulate(
            quickstart(
                "cluster.node=single-gpu",
                f"cluster.network={nic}",
                "strategy.aggregation.library=ideal",
            )
        ).step_time_s["mean"]

    assert step(rate * faster) <= step(rate) * (1 + 1e-12)


def test_traffic_of_a_ring_is_the_formula():
    result = simulate(quickstart("strategy.overlap.kind=sequential"))
    size, workers = 25_557_032 * 4, 32
    assert result.traffic.sent_in_total == 2 * (workers - 1) * size
    assert result.traffic.sent_by_busiest == pytest.approx(
        2 * (workers - 1) / workers * size, abs=8
    )


def test_a_workers_jitter_does_not_depend_on_how_many_others_there_are():
    jitter = quickstart().disturbance.jitter
    np.testing.assert_array_equal(jitter.factors(3, 5, seed=7), jitter.factors(8, 5, seed=7)[:, :3])


def test_jitter_has_mean_one_and_the_given_spread():
    factors = quickstart("disturbance.jitter.sigma=0.2").disturbance.jitter.factors(
        100, 1000, seed=0
    )
    assert factors.mean() == pytest.approx(1, abs=2e-3)
    assert np.log(factors).std() == pytest.approx(0.2, rel=0.02)


def test_the_same_seed_gives_the_same_answer_in_another_process():
    code = (
        "import json, sys; from dpsim import load_scenario, simulate;"
        f"r = simulate(load_scenario({str(QUICKSTART)!r}, ['run.steps=4', "
        "'run.warmup=1'])).to_json(); del r['provenance'];"
        "json.dump(r, sys.stdout)"
    )
    here = simulate(quickstart()).to_json()
    del here["provenance"]
    there = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    ).stdout
    assert there == json.dumps(here)


def test_calibration_makes_the_prediction_there_the_measurement():
    calibrated = ["calibration={nodes: 1, step_time: 250 ms, source: a test}"]
    assert simulate(quickstart("cluster.nodes=1", *calibrated)).step_time_s[
        "mean"
    ] == pytest.approx(0.25, rel=1e-7)
    assert simulate(quickstart("cluster.nodes=4", *calibrated)).step_time_s["mean"] > 0.25


def test_a_measured_step_shorter_than_communication_is_refused():
    with pytest.raises(
        DpsimError, match=r"calibration.step_time must be longer than communication alone"
    ):
        simulate(quickstart("calibration={nodes: 4, step_time: 1 ms, source: a test}"))


def test_too_many_records_are_refused_with_the_limit():
    with pytest.raises(DpsimError, match=r"steps \+ warmup must be at most 625000 for 32 workers"):
        simulate(quickstart("run.steps=1000000"))


def test_a_precision_that_the_gpu_lacks_is_refused():
    with pytest.raises(DpsimError, match="bf16"):
        simulate(quickstart("workload.precision=bf16"))


def test_other_traffic_and_slow_links_cost_time():
    few = ("cluster.nodes=2", "cluster.gpus_per_node=2", "run.steps=1", "cluster.network.nic=10GbE")
    single = simulate(quickstart(*few)).step_time_s["mean"]
    disturbed = simulate(
        quickstart(*few, "disturbance.background=[{source: 0, destination: 3}]")
    ).step_time_s["mean"]
    slowed = simulate(
        quickstart(*few, "disturbance.links=[{link: 'node0/nic0->*', factor: 0.1}]")
    ).step_time_s["mean"]
    assert single < disturbed
    assert single < slowed


def test_a_link_changes_in_the_middle_of_a_run(scenario):
    """Steps before the change are as without it, later ones as with it from the start."""
    plain, always, later = (
        simulate(scenario(disturbance={"links": links})).steps.step[:, 0]
        for links in (
            [],
            [{"link": "node0/nic0->*", "factor": 0.5}],
            [{"link": "node0/nic0->*", "factor": 0.5, "at": "0.12 s"}],
        )
    )
    assert plain[0] < 0.12 < plain[:2].sum()
    np.testing.assert_allclose(later[0], plain[0], rtol=1e-12)
    np.testing.assert_allclose(later[-1], always[-1], rtol=1e-12)


def test_a_cut_link_without_a_way_around_is_an_error_that_names_it():
    with pytest.raises(DpsimError, match=r"no path remains from .* when node0/nic0->"):
        simulate(quickstart("disturbance.links=[{link: 'node0/nic0->*', factor: 0}]"))


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("disturbance.links=[{link: 'node9/nic0->*', factor: 0.5}]", "must name a link"),
        (
            "disturbance.background=[{source: 0, destination: 32}]",
            "must name GPUs from 0 to 31, but got 32",
        ),
    ],
)
def test_links_and_gpus_that_are_not_there(override, message):
    with pytest.raises(DpsimError, match=message):
        simulate(quickstart(override))


def test_rounds_are_refused_where_they_would_be_wrong():
    with pytest.raises(DpsimError, match="must be flows or auto"):
        simulate(
            quickstart(
                "run.network_model=rounds", "disturbance.background=[{source: 0, destination: 9}]"
            )
        )


def test_mixed_gpus_compute_at_their_own_speed():
    mixed = load_scenario(
        QUICKSTART,
        [
            "run.steps=2",
            "disturbance.jitter.sigma=0",
            "cluster={groups: [{nodes: 1, node: dgx1-v100, gpus_per_node: 2}, {nodes: 1, node: "
            "dgx1-p100, gpus_per_node: 2}]}",
        ],
    )
    steps = simulate(mixed).steps
    assert steps.compute[0, 0] == steps.compute[0, 1] < steps.compute[0, 2] == steps.compute[0, 3]
    assert (steps.straggler_wait[:, :2] > 0).all()


@pytest.mark.parametrize("bandwidths", [("3 MB/s", "3 PB/s"), ("3 PB/s", "3 MB/s")])
def test_the_gpu_that_adds_slowest_sets_the_pace_of_a_reduction(tiny, bandwidths):
    """A ring of two sends 1 of 2 MB at 1 MB/s, adds it and sends it on: 2 s, and 1 s to add.

    To add a byte is two read and one written; at 3 MB/s that is 1 s for 1 MB.
    """
    uniform = tiny(1).cluster
    gpus = [
        uniform.accelerator.model_copy(update={"memory_bandwidth": bandwidth})
        for bandwidth in bandwidths
    ]
    groups = [{"nodes": 1, "node": uniform.node, "gpu": dict(gpu)} for gpu in gpus]
    mixed = tiny(1, cluster={"node": None, "groups": groups}, aggregation="allreduce")
    assert simulate(mixed).parts_s["exposed_comm"] == pytest.approx(3, rel=1e-6)
