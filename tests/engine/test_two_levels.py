"""Hierarchical local SGD: groups that average inside, and meet now and then (DiLoCo)."""

import numpy as np
import pytest
from pydantic import ValidationError

from dpsim import simulate
from dpsim.base.errors import DpsimError
from dpsim.engine import Recording, prepare, run_scenario

SLOW = {"network": {"nic": {"rate": "50 kB/s", "latency": 0}, "fabric": "single-switch"}}


def two_level(periods, every=1, group=1, **outer):
    outer = {"every": periods, **outer}
    return {"kind": "local-sgd", "group": group, "every": every, "outer": outer}


def steps_of(tiny, workers, sync, steps=8, **rest):
    scenario = tiny(workers, sync=sync, run={"steps": steps}, **rest)
    return run_scenario(scenario, settle=False).steps


@pytest.mark.parametrize("engine", ["vector", "events"])
def test_diloco_of_two_groups_in_two_fragments_on_paper(tiny, engine):
    """Groups of one worker, an outer step every 4 steps of 10.5 s, in two fragments of 1 MB: the first
    sets out after step 2 of each period, the second after step 4. An all-reduce of 1 MB between two
    takes 1 s, which is waited for at once.
    """
    scenario = tiny(2, sync=two_level(4, fragments=2), run={"steps": 8, "engine": engine})
    steps = run_scenario(scenario, settle=False).steps.step
    np.testing.assert_allclose(steps[:, 0], [10.5, 11.5] * 4, rtol=1e-6)
    np.testing.assert_array_equal(steps[:, 0], steps[:, 1])


@pytest.mark.parametrize("engine", ["vector", "events"])
def test_the_timeline_of_diloco_in_two_groups_of_two(tiny, engine):
    """2 MB all-reduced in a group take 2 s. Each worker of a pair sends its half of a fragment of
    1 MB to its replica, 0.5 s, and what its partner has got comes in 0.5 s.
    """
    sync = two_level(4, group=2, fragments=2)
    scenario = tiny(4, sync=sync, run={"steps": 4, "engine": engine})
    recorded = run_scenario(scenario, Recording(steps=4))
    assert recorded.engine.name == engine
    inside, across, back = (
        "all-reduce in groups",
        "all-reduce between groups",
        "all-gather in groups",
    )
    expected = [
        *(("forward", 0, 3), ("backward", 3, 10)),
        *((f"all: {inside}", 10, 12), ("update", 12, 12.5)),
        *(("forward", 12.5, 15.5), ("backward", 15.5, 22.5)),
        *((f"all: {inside}", 22.5, 24.5), ("update", 24.5, 25)),
        *((f"fragment0: {across}", 25, 25.5), (f"fragment0: {back}", 25.5, 26)),
        *(("forward", 26, 29), ("backward", 29, 36)),
        *((f"all: {inside}", 36, 38), ("update", 38, 38.5)),
        *(("forward", 38.5, 41.5), ("backward", 41.5, 48.5)),
        *((f"all: {inside}", 48.5, 50.5), ("update", 50.5, 51)),
        *((f"fragment1: {across}", 51, 51.5), (f"fragment1: {back}", 51.5, 52)),
    ]
    for worker in range(4):
        found = [
            (each.name, each.start, each.end)
            for each in sorted(recorded.intervals(), key=lambda each: (each.start, each.end))
            # The outer optimiser takes nanoseconds.
            if each.worker == worker and each.end - each.start > 1e-6
        ]
        assert [name for name, *_ in found] == [name for name, *_ in expected]
        np.testing.assert_allclose(
            [times for _, *times in found], [times for _, *times in expected], atol=1e-7
        )


def test_streaming_diloco_on_paper(tiny):
    """The same with one step of overlap: of 1 s on the way nothing is left to wait for.

    Over cards of 50 kB/s a fragment takes 20 s, 9.5 s longer than the step beside it. Those of
    steps 2, 4 and 6 are waited for as steps 4, 6 and 8 begin. Two steps hide all of it.
    """
    one, two = (two_level(4, fragments=2, overlap=overlap) for overlap in (1, 2))
    np.testing.assert_allclose(steps_of(tiny, 2, one).step, 10.5, rtol=1e-6)
    slow = steps_of(tiny, 2, one, cluster=SLOW)
    np.testing.assert_allclose(slow.exposed_comm[:, 0], [0, 0, 0, 9.5, 0, 9.5, 0, 9.5], rtol=1e-5)
    np.testing.assert_allclose(slow.overlapped_comm[1, 0], 20, rtol=1e-5)
    np.testing.assert_array_equal(steps_of(tiny, 2, two, cluster=SLOW).exposed_comm, 0)


def test_every_fragment_is_paid_once_a_period(tiny):
    """As above: the last one of a run comes after it, the first of the run before is in it."""
    sync = two_level(4, fragments=2, overlap=1)
    result = simulate(tiny(2, sync=sync, run={"steps": 8}, cluster=SLOW))
    np.testing.assert_allclose(result.steps.exposed_comm[:, 0].sum(), 4 * 9.5, rtol=1e-5)
    assert result.notes == ("the first 2 steps do not count, instead of 0",)


def test_groups_that_meet_in_every_step_exchange_gradients_on_paper(tiny):
    """Four workers in two groups: every step an all-reduce of 2 MB in each, 2 s. Every other step
    each worker all-reduces its half of the model with its replica, 1 s, and gathers the rest, 1 s.
    """
    steps = steps_of(tiny, 4, two_level(2, group=2)).step
    np.testing.assert_allclose(steps[:, 0], [12.5, 14.5] * 4, rtol=1e-6)


def test_groups_average_models_before_they_meet_on_paper(tiny):
    """Averaged in the group after every second step, 2 s, and between groups after the fourth."""
    steps = steps_of(tiny, 4, two_level(2, every=2, group=2)).step
    np.testing.assert_allclose(steps[:, 0], [10.5, 12.5, 10.5, 14.5] * 2, rtol=1e-6)


def test_a_straggler_holds_up_its_group_at_once_and_others_at_the_outer_step(tiny):
    """Worker 0 takes twice as long, 20 s of passes and 1 s of update. Its partner waits in every step,
    the other group after four of them.
    """
    slow = {"slow": [{"workers": [0], "factor": 2}]}
    waits = steps_of(tiny, 4, two_level(4, group=2), disturbance=slow).straggler_wait
    np.testing.assert_allclose(waits[:, 1], [10, 10.5, 10.5, 11] * 2, rtol=1e-6)
    np.testing.assert_allclose(waits[:, 2], [0, 0, 0, 42, 0, 0, 0, 42], rtol=1e-6)
    np.testing.assert_allclose(waits[:, 0], 0, atol=1e-9)


def test_what_travels_between_groups_does_not_hold_up_what_travels_inside(tiny):
    """A fragment of 1 MB over 50 kB/s is 20 s on its way between groups, then 20 s in them; beside
    it every group exchanges gradients of its own, 40 s a step, which do not queue behind it.

    They share the cards: of the fragment's 40 s the first 10 pass beside computing, the other 30
    take twice as long, and so do 30 of the gradients' 40. A vector of clocks leaves that out.
    """
    sync = two_level(4, group=2, overlap=3)
    beside = simulate(tiny(4, sync=sync, run={"steps": 12}, cluster=SLOW))
    assert (beside.engine, beside.approximation) == ("events", None)
    shared = [30, 0, 0, 0] * 3  # the first step after a fragment sets out
    np.testing.assert_allclose(beside.steps.step[:, 0], np.add(shared, 10.5 + 40), rtol=1e-5)
    run = {"steps": 12, "engine": "vector"}
    single = simulate(tiny(4, sync=sync, run=run, cluster=SLOW))
    assert "groups of workers share links" in single.approximation
    np.testing.assert_allclose(single.steps.step, 10.5 + 40, rtol=1e-5)


@pytest.mark.parametrize(
    ("sync", "sent"),
    [
        # 2 (m - 1) S / period of each ring of m: four of one worker each, or two of two.
        (two_level(5), 2 * 3 * 2e6 / 5),
        (two_level(5, fragments=4, overlap=2), 2 * 3 * 2e6 / 5),
        # Gradients in two groups; S / 2 between two pairs of replicas, S gathered in two groups.
        (two_level(5, group=2), 2 * 2 * 2e6 + (2 * 2 * 1e6 + 2 * 2e6) / 5),
        (two_level(5, every=2, group=2), 2 * 2 * 2e6 / 2 + (2 * 2 * 1e6 + 2 * 2e6) / 10),
        # As bf16: half.
        (two_level(5, compression={"kind": "cast"}), 3 * 2e6 / 5),
        # About a byte an element, gathered from four workers: three payloads to each.
        (two_level(5, compression={"kind": "int8"}), 4 * 3 * 5.01e5 / 5),
    ],
)
def test_bytes_are_paid_over_the_period(tiny, sync, sent):
    result = simulate(tiny(4, sync=sync, run={"steps": 3}))
    assert result.traffic.sent_in_total == pytest.approx(sent, rel=1e-3)
    assert len(result.steps.step) == sync["every"] * 5


def test_the_outer_optimiser_takes_memory_and_time(tiny):
    """Nesterov keeps the outer weights and a momentum, 8 bytes of each of 500,000 parameters, SGD
    the weights; the workers of a group divide it. It moves 3 + 6 and 3 + 4 numbers a parameter.
    """
    held = [
        simulate(tiny(4, sync=sync)).memory.held.optimizer
        for sync in (
            "bsp",
            two_level(2),
            two_level(2, optimizer="sgd"),
            two_level(2, group=2),
        )
    ]
    assert np.subtract(held, held[0]).tolist() == [0, 8 * 5e5, 4 * 5e5, 4 * 5e5]
    for optimizer, numbers in (("nesterov", 9), ("sgd", 7)):
        job = prepare(tiny(4, sync=two_level(2, optimizer=optimizer)))
        (call,) = job.calls(1)
        assert (call.encode + call.decode)[0] == pytest.approx(numbers * 4 * 5e5 / 3e15)


def test_an_outer_step_of_one_group_is_only_its_optimiser(tiny):
    """Workers that average over all of them agree: nothing is left to send (SlowMo)."""
    sync = {"kind": "local-sgd", "every": 4, "outer": {"every": 2}}
    plain = {"kind": "local-sgd", "every": 4}
    outer, without = (simulate(tiny(2, sync=each, run={"steps": 8})) for each in (sync, plain))
    assert outer.traffic.sent_in_total == without.traffic.sent_in_total
    assert outer.memory.held.optimizer == without.memory.held.optimizer + 2 * 4 * 5e5 / 2
    assert outer.step_time_s["mean"] > without.step_time_s["mean"]


def test_plain_averages_of_single_workers_are_local_sgd(tiny):
    """Two levels of which one is idle: the same calls at the same times."""
    levels = simulate(tiny(4, sync=two_level(1, every=4, optimizer="sgd"), run={"steps": 8}))
    plain = simulate(tiny(4, sync={"kind": "local-sgd", "every": 4}, run={"steps": 8}))
    np.testing.assert_allclose(levels.steps.step, plain.steps.step, rtol=1e-6)
    assert levels.traffic.sent_in_total == plain.traffic.sent_in_total


def test_groups_begin_after_the_switch(tiny):
    """Two steps of BSP over all four first, 3 s each; then independent pairs, and an outer step."""
    sync = {**two_level(3, group=2), "switch_after": 2}
    steps = steps_of(tiny, 4, sync, steps=5).step
    np.testing.assert_allclose(steps[:, 0], [13.5, 13.5, 12.5, 12.5, 14.5], rtol=1e-6)


@pytest.mark.parametrize("algorithm", ["ring", "tree", "auto", "halving-doubling"])
def test_groups_meet_by_any_algorithm(tiny, algorithm):
    aggregation = {"kind": "allreduce", "algorithm": algorithm}
    result = simulate(tiny(4, sync=two_level(2, group=2), aggregation=aggregation))
    assert result.traffic.busiest_link_utilisation <= 1
    assert result.traffic.sent_in_total > 0


def test_a_recorded_run_is_the_same_and_names_its_fragments(tiny):
    scenario = tiny(4, sync=two_level(4, group=2, fragments=2, overlap=1), run={"steps": 8})
    recorded = run_scenario(scenario, Recording(steps=8))
    np.testing.assert_array_equal(recorded.steps.step, simulate(scenario).steps.step)
    names = {each.name for each in recorded.intervals() if each.stream == "communication"}
    assert "fragment1: all-reduce between groups" in names
    assert "fragment0: all-gather in groups" in names
    assert recorded.link_transfers()


@pytest.mark.parametrize("overlap", [0, 3])
@pytest.mark.parametrize("aggregation", ["allreduce", "sharded"])
def test_equal_steps_between_outer_steps_are_as_if_simulated_one_by_one(tiny, aggregation, overlap):
    """What is recorded is simulated step by step. Slow-downs that last cut the equal ones short."""
    scenario = tiny(
        4,
        aggregation=aggregation,
        sync=two_level(12, group=2, fragments=2, overlap=overlap),
        run={"steps": 48, "engine": "vector"},
        disturbance={"transient": [{"rate": 0.02, "mean_steps": 10, "factor": 1.5}]},
    )
    recorded = run_scenario(scenario, Recording(steps=48), settle=False).steps
    plain = run_scenario(scenario, settle=False).steps
    for part in ("step", "compute", "exposed_comm", "straggler_wait", "overlapped_comm"):
        found, wanted = getattr(plain, part), getattr(recorded, part)
        np.testing.assert_allclose(found, wanted, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize(
    ("sync", "message"),
    [
        ({"group": 3}, r"strategy.sync.group: must divide the 4 workers, but got 3"),
        ({"outer": {"overlap": 1}}, "outer.overlap must be 0 where group is all"),
        ({"outer": {"fragments": 2}}, "outer.fragments must be 1 where group is all"),
    ],
)
def test_what_means_nothing_is_refused(tiny, sync, message):
    with pytest.raises((DpsimError, ValidationError), match=message):
        simulate(tiny(4, sync={"kind": "local-sgd", **sync}))


def test_groups_with_gossip_are_refused(tiny):
    why = "aggregation gossip with sync.outer is not possible: workers of a group exchange in "
    with pytest.raises(ValidationError, match=why):
        tiny(4, aggregation="gossip", sync=two_level(2))


@pytest.mark.parametrize("stage", [1, 2, 3])
@pytest.mark.parametrize("engine", ["vector", "events"])
def test_a_sharded_group_sends_only_shards(tiny, engine, stage):
    """Two groups of two: a step is that of one group by itself. After every second one a
    worker all-reduces its half of 2 MB with its replica, 1 s, and has nothing to gather.
    """
    aggregation, run = {"kind": "sharded", "stage": stage}, {"steps": 4, "engine": engine}
    single = run_scenario(tiny(2, aggregation=aggregation, run=run), settle=False).steps.step
    sync = two_level(2, group=2)
    scenario = tiny(4, aggregation=aggregation, sync=sync, run=run)
    steps = run_scenario(scenario, settle=False).steps.step
    between = np.array([0, 1, 0, 1])
    np.testing.assert_allclose(steps, np.tile(single[:, :1] + between[:, None], 4), rtol=1e-6)
    with_nobody = tiny(2, aggregation=aggregation, run=run)
    held, least = (simulate(each).memory.held for each in (scenario, with_nobody))
    # The outer optimiser keeps 8 bytes of each of 500,000 parameters, divided by two.
    assert held.optimizer == least.optimizer + 2e6
    assert (held.weights, held.gradients) == (least.weights, least.gradients)


def test_a_codec_between_groups_that_divide_their_model(tiny):
    """Int8 in scales of its own does not add up: shards are gathered between the groups."""
    sync = two_level(2, group=2, compression={"kind": "int8"})
    result = simulate(tiny(4, aggregation="sharded", sync=sync, run={"steps": 4}))
    plain = simulate(tiny(4, aggregation="sharded", sync=two_level(2, group=2), run={"steps": 4}))
    assert result.traffic.sent_in_total < plain.traffic.sent_in_total


@pytest.mark.parametrize(
    ("aggregation", "sync", "why"),
    [
        ({"shard_group": 1}, {}, "shard_group 1 with sync.outer is not possible: a group divides"),
        ({}, {"every": 2}, "with sync.outer is not possible: workers of a group that divide a"),
        (
            {},
            {"switch_after": 2},
            "with sync.outer is not possible: workers of a group that divide",
        ),
    ],
)
def test_groups_divide_one_model_in_every_step(tiny, aggregation, sync, why):
    with pytest.raises(ValidationError, match=why):
        tiny(4, aggregation={"kind": "sharded", **aggregation}, sync={**two_level(2), **sync})
