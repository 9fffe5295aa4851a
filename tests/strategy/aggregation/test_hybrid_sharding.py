"""Hybrid sharding: replicas meet on a communicator of their own, beside what their groups send."""

import numpy as np
import pytest

from dpsim import simulate
from dpsim.engine import Recording, exact_for, prepare, run_scenario

ENGINES = ("vector", "events")
INSTANT = {"rate": "1 PB/s", "latency": 0}
INSIDE = {"rate": "1 MB/s", "latency": 0}
CARD = {"rate": "100 kB/s", "latency": 0}
HYBRID = {
    "kind": "sharded",
    "shard_group": "node",
    "unit_size": "1 B",
    "library": "ideal",
    "gradients": {"sync_each_pass": True},
}


@pytest.fixture
def pairs(tiny):
    """Builds two nodes of two GPUs: 1 MB/s from one to the other, and 100 kB/s for each to leave.

    Of a layer of 1 MB half is gathered or scattered, 0.5 s. Replicas all-reduce half of it in two
    rounds of a quarter, 5 s.
    """
    node = {
        "gpu": {"peak": {"fp32": "1 TFLOP/s"}, "memory": "16 GB", "memory_bandwidth": "3 PB/s"},
        "devices": {"gpu": 2, "nvswitch": 1, "pcie-switch": 2},
        "edges": [
            {"between": ["gpu*", "nvswitch0"], "link": INSIDE},
            {"between": ["gpu0", "pcie-switch0"], "link": INSTANT},
            {"between": ["gpu1", "pcie-switch1"], "link": INSTANT},
            {"between": ["pcie-switch0", "pcie-switch1"], "link": CARD},
        ],
        "nic_slots": ["pcie-switch0", "pcie-switch1"],
        "nic_bus": INSTANT,
        "nics": {"link": INSTANT, "count": 2},
    }
    network = {"fabric": "single-switch", "nic": CARD, "nics_per_node": 2}

    def build(engine, passes=1, **changes):
        return tiny(
            2,
            cluster={"node": node, "network": network},
            workload={"gradient_accumulation": passes},
            run={"engine": engine},
            aggregation=HYBRID,
            overlap="wfbp",
            **changes,
        )

    return build


@pytest.mark.parametrize("engine", ENGINES)
def test_the_timeline_of_two_passes(pairs, engine):
    """Neither the second scatter nor the second pass's gathers wait for replicas that all-reduce.

    Each worker updates half of the model, 0.25 s.
    """
    scenario = pairs(engine, passes=2)
    assert exact_for(prepare(scenario)) is None
    recorded = run_scenario(scenario, Recording(steps=1))
    assert (recorded.engine.name, recorded.engine.approximation) == (engine, None)
    expected = [
        ("unit0: all-gather", 0, 0.5),
        ("unit1: all-gather", 0.5, 1),
        ("forward", 0.5, 1.5),
        ("unit1-again: all-gather", 1.5, 2),
        ("forward", 1.5, 3.5),
        ("unit0-again: all-gather", 3.5, 4),
        ("backward", 3.5, 7.5),
        ("tensor1: reduce-scatter", 7.5, 8),
        ("backward", 7.5, 10.5),
        ("tensor1: all-reduce-replicas", 8, 13),
        ("tensor0: reduce-scatter", 10.5, 11),
        ("unit0: all-gather", 11, 11.5),
        ("unit1: all-gather", 11.5, 12),
        ("forward", 11.5, 12.5),
        ("unit1-again: all-gather", 12.5, 13),
        ("forward", 12.5, 14.5),
        ("tensor0: all-reduce-replicas", 13, 18),
        ("unit0-again: all-gather", 14.5, 15),
        ("backward", 14.5, 18.5),
        ("tensor1: reduce-scatter", 18.5, 19),
        ("backward", 18.5, 21.5),
        ("tensor1: all-reduce-replicas", 19, 24),
        ("tensor0: reduce-scatter", 21.5, 22),
        ("tensor0: all-reduce-replicas", 24, 29),
        ("update", 29, 29.25),
    ]
    # Of 23 s in which something is on its way, 9 s are waited for.
    np.testing.assert_allclose(recorded.result.steps.exposed_comm, 9, rtol=1e-6)
    np.testing.assert_allclose(recorded.result.steps.overlapped_comm, 14, rtol=1e-6)
    for worker in range(4):
        mine = [each for each in recorded.intervals() if each.worker == worker]
        found = sorted((each.start, each.end, each.name) for each in mine)
        assert [name for *_, name in found] == [name for name, *_ in expected]
        np.testing.assert_allclose(
            [times for *times, _ in found], [times for _, *times in expected], atol=1e-6
        )


@pytest.mark.parametrize("engine", ENGINES)
def test_replicas_on_the_same_cards_as_their_groups_carry_no_more_than_these(tiny, engine):
    """Groups of two nodes of one card, 100 kB/s: each call below takes 5 s without others.

    Gathers end at 20, the first scatter at 25. Then the first replicas and the second scatter are
    on the cards, by turns (vector) or at half rate each (events), until 35, the last replicas until
    40. Each card sends 4 MB in all.
    """
    scenario = tiny(
        4,
        cluster={"network": {"fabric": "single-switch", "nic": CARD, "nics_per_node": 1}},
        aggregation={**HYBRID, "shard_group": 2},
        overlap="wfbp",
        run={"engine": engine},
    )
    result = simulate(scenario)
    assert (result.approximation is None) == (engine == "events")
    np.testing.assert_allclose(result.steps.step, 40.25, rtol=1e-6)
    np.testing.assert_allclose(result.traffic.links.bytes.max(), 4e6, rtol=1e-6)


@pytest.mark.parametrize("passes", [1, 3])
def test_both_engines_agree_on_workers_that_jitter(pairs, passes):
    jitter = {"jitter": {"kind": "lognormal", "sigma": 0.3}}
    vector, events = (
        simulate(pairs(engine, passes, disturbance=jitter)).steps for engine in ENGINES
    )
    for part in ("step", "exposed_comm", "straggler_wait", "overlapped_comm"):
        np.testing.assert_allclose(getattr(vector, part), getattr(events, part), rtol=1e-9)
    assert vector.straggler_wait.min() >= 0 < vector.straggler_wait.max()
