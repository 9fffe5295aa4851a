"""A step is a program of passes: what is sent in each, where it is needed, and what repeats."""

from dataclasses import fields

import numpy as np
import pytest

from dpsim import load_scenario, simulate
from dpsim.base.errors import DpsimError
from dpsim.engine import Recording, run_scenario, slow_downs
from dpsim.engine.calls import planned
from dpsim.engine.clocks import Clocks
from dpsim.engine.preparation import prepare
from dpsim.engine.vector_engine import run_vector
from dpsim.workload import Layer, MeasuredTimes, Model, ModelProfile, Program

MB = 250_000  # elements
ENGINES = ("vector", "events")


@pytest.fixture(scope="module")
def three_layers(tmp_path_factory):
    """A profile of three layers of 1 MB: 10 ms forward, 20 ms backward each, no update."""
    times = MeasuredTimes(
        batch_sizes=(8,), forward_s=((0.01,) * 3,), backward_s=((0.02,) * 3,), optimizer_s=(0.0,)
    )
    layers = tuple(Layer(f"layer{number}", "linear", (MB,)) for number in range(3))
    path = tmp_path_factory.mktemp("programs") / "three-layers.json"
    path.write_text(ModelProfile.of(Model("three-layers", layers, "sample", times), {}).to_json())
    return {"profile": str(path)}


@pytest.fixture
def accumulating(tiny, three_layers):
    """Builds a scenario of two workers whose all-reduce of a layer takes 50 ms, with k passes."""
    network = {
        "fabric": "single-switch",
        "nic": {"rate": "20 MB/s", "latency": 0},
        "nics_per_node": 1,
    }

    def build(passes, workers=2, cluster=(), workload=(), run=(), **strategy):
        given = {"model": three_layers, "gradient_accumulation": passes, **dict(workload)}
        machines = {"network": network, **dict(cluster)}
        return tiny(workers, cluster=machines, workload=given, run=run, **strategy)

    return build


def test_positions_run_over_all_passes():
    program = Program(layers=3, passes=2)
    assert [program.turn(0), program.after_backward(0, 0)] == [3, 6]
    assert [program.before_forward(1, 0), program.before_backward(1, 2)] == [6, 9]
    assert (program.end, program.updated, program.next_step(2)) == (12, 13, 15)
    assert [program.pass_of(position) for position in (0, 5, 6, 12)] == [0, 0, 1, 1]
    assert [program.name_of(position) for position in (1, 3, 4, 6, 7, 12, 13)] == [
        *("forward", "forward", "backward", "backward", "forward", "backward", "update")
    ]


@pytest.mark.parametrize("engine", ENGINES)
def test_priority_waits_layer_by_layer_in_the_first_pass_of_the_next_step(accumulating, engine):
    """Backward ends at 270 ms, with layers 2, 1 and 0 ready at 230, 250 and 270. Layer 2 is sent
    until 280, layer 0 until 330, layer 1 until 380. The next forward pass begins at 330 and waits
    for layer 1 until 380: the step is 330 + 10 + 40 + 20 + 60 + 2 x 90 - 270 = 370 ms.
    """
    run = {"steps": 4, "warmup": 2, "engine": engine}
    steps = simulate(accumulating(3, overlap="priority", run=run)).steps
    np.testing.assert_allclose(steps.step, 0.37, rtol=1e-8)  # chunks of whole elements


@pytest.mark.parametrize("passes", [1, 2, 4, 8])
@pytest.mark.parametrize("unit", ["1 MB", "2 MB", "100 MB"])
def test_weights_are_gathered_in_every_pass_and_gradients_scattered_once(
    accumulating, passes, unit
):
    """(2 k + 1) / 3 of the bytes of one pass."""
    one, several = (
        simulate(accumulating(k, 4, aggregation={"kind": "sharded", "unit_size": unit})).traffic
        for k in (1, passes)
    )
    assert several.sent_in_total == (2 * passes + 1) / 3 * one.sent_in_total
    assert one.sent_in_total == 3 * 3 * (3 * 1e6)  # 3 (m - 1) S


@pytest.mark.parametrize("passes", [1, 2, 5])
def test_gradients_may_be_scattered_in_every_pass(accumulating, passes):
    sharded = {"kind": "sharded", "gradients": {"sync_each_pass": True}}
    kept = {**sharded, "reshard_after_forward": False}
    sent = simulate(accumulating(passes, 4, aggregation=sharded)).traffic.sent_in_total
    assert sent == passes * 3 * 3 * 3e6
    assert simulate(accumulating(passes, 4, aggregation=kept)).traffic.sent_in_total == (
        passes * 2 * 3 * 3e6
    )


def test_gradients_in_half_precision_are_half_as_long(accumulating):
    halved = {"kind": "sharded", "stage": 2, "weight_bytes": 2, "gradients": {"dtype": "bf16"}}
    assert simulate(accumulating(1, 4, aggregation=halved)).traffic.sent_in_total == 2 * 3 * 1.5e6


@pytest.mark.parametrize("overlap", ["sequential", "wfbp", "buckets"])
@pytest.mark.parametrize(
    ("aggregation", "share"),
    [
        ({"unit_size": "1 MB"}, 0.6),
        ({"unit_size": "2 MB", "prefetch": 2, "reshard_after_forward": False}, 0.6),
        ({"unit_size": "1 MB", "gradients": {"sync_each_pass": True}}, 0.6),
        # Nothing synchronises workers before the step's end: every pass is walked.
        ({"stage": 2, "gradients": {"sync_each_pass": True}}, 1.0),
    ],
    ids=["zero3", "kept", "each-pass", "zero2"],
)
def test_passes_that_only_shift_the_clocks_are_not_walked_one_by_one(
    accumulating, monkeypatch, aggregation, share, overlap
):
    """With jitter, so that workers are apart; the short cut is exact, and it is taken."""
    aggregation = {"kind": "sharded", **aggregation}
    scenario = accumulating(12, 4, aggregation=aggregation, overlap=overlap, run={"steps": 3})
    jitter = {"kind": "lognormal", "sigma": 0.1}
    disturbed = scenario.disturbance.model_validate({"jitter": jitter})
    job = prepare(scenario.model_copy(update={"disturbance": disturbed}))
    assert job.calls_of  # worked out before collectives are counted
    shortened, calls = walked(job)
    monkeypatch.setattr("dpsim.engine.clocks.Clocks.repeat", lambda *_: False)
    whole, all_calls = walked(job)
    assert calls <= share * all_calls
    for part in ("compute", "exposed_comm", "straggler_wait", "encode", "overlapped_comm"):
        np.testing.assert_allclose(
            getattr(shortened, part), getattr(whole, part), rtol=1e-10, atol=1e-13
        )


def test_the_short_cut_waits_until_clocks_of_a_ring_move_alike(monkeypatch):
    """A ring through nodes of fast links lets one node be ahead of another by what messages save
    there. Only then do clocks move alike, pass for pass: the short cut waits for that.
    """
    sizes = ["cluster.nodes=2", "workload.batch_per_gpu=8", "workload.gradient_accumulation=40"]
    sharded = "strategy.aggregation={kind: sharded, library: ideal}"
    run = "run={steps: 1, warmup: 0}"
    job = prepare(load_scenario("scenarios/quickstart.yaml", [*sizes, sharded, run]))
    assert job.calls_of  # worked out before collectives are counted
    moves = []
    repeat = Clocks.repeat

    def noted(clocks, before, now, times):
        moves.append((now.time - before.time, repeat(clocks, before, now, times)))
        return moves[-1][1]

    monkeypatch.setattr(Clocks, "repeat", noted)
    shortened, calls = walked(job)
    *apart, (alike, taken) = moves
    assert taken
    assert np.ptp(alike) < 1e-12
    assert 5 < len(apart) < 30
    assert all(np.ptp(move) > 1e-4 for move, _ in apart)
    # All go at the pace of those that were the slowest when they were still apart.
    np.testing.assert_allclose(alike, apart[-1][0].max(), rtol=1e-10)

    monkeypatch.setattr(Clocks, "repeat", lambda *_: False)
    whole, all_calls = walked(job)
    assert calls < 0.7 * all_calls
    np.testing.assert_allclose(shortened.step, whole.step, rtol=1e-12)
    np.testing.assert_allclose(shortened.exposed_comm, whole.exposed_comm, rtol=1e-9)
    np.testing.assert_allclose(shortened.straggler_wait, whole.straggler_wait, rtol=1e-7)


FREE = "disturbance={slow: [{workers: [0], factor: 1.3}]}"


@pytest.mark.parametrize(
    "strategy",
    [
        "{overlap: {kind: buckets}}",
        "{overlap: {kind: priority}}",
        "{overlap: {kind: buckets}, sync: {kind: ssp, staleness: 2}}",
        "{overlap: {kind: buckets}, sync: {kind: local-sgd, every: 1}}",
        "{overlap: {kind: wfbp}, compression: {kind: int8}}",
        "{aggregation: {kind: sharded}, overlap: {kind: wfbp}}",
        "{aggregation: {kind: sharded, shard_group: node}, overlap: {kind: wfbp}}",
    ],
)
def test_steps_that_move_all_clocks_alike_are_taken_in_one_go(monkeypatch, strategy):
    """Where nothing differs from step to step, all are as they are when each is walked."""
    run = "run={steps: 40, warmup: 0}"
    job = prepare(load_scenario("scenarios/quickstart.yaml", [FREE, run, f"strategy={strategy}"]))
    assert job.calls_of  # worked out before collectives are counted
    shortened, calls = walked(job)
    monkeypatch.setattr("dpsim.engine.clocks.ClockState.repeats", lambda *_: False)
    whole, all_calls = walked(job)
    assert calls < 0.5 * all_calls
    for part in fields(shortened):
        np.testing.assert_allclose(
            getattr(shortened, part.name), getattr(whole, part.name), rtol=1e-9, atol=1e-12
        )


def test_steps_that_are_recorded_are_walked():
    """The last of 30 steps, the 31st of the run, is kept though it is as all before it."""
    run = "run={steps: 30, warmup: 1}"
    scenario = load_scenario("scenarios/quickstart.yaml", [FREE, run])
    kept = run_scenario(scenario, Recording(steps=1, first=29), settle=False)
    bounds, step = kept.boundaries(), kept.intervals(29)
    assert min(each.start for each in step) == pytest.approx(bounds[0].min(), rel=1e-9)
    assert len(step) == len(run_scenario(scenario, Recording(steps=1), settle=False).intervals(0))


def walked(job):
    """The steps of ``job``, and how many collectives were timed for them."""
    calls = []

    class Counted(dict):
        def __getitem__(self, name):
            calls.append(name)
            return super().__getitem__(name)

    job.__dict__["collectives"] = Counted(job.collectives)
    steps = run_vector(job, slow_downs(job), lambda done: None)
    return steps, len(calls)


@pytest.mark.parametrize("engine", ENGINES)
def test_a_fully_sharded_step_of_two_passes_on_paper(accumulating, engine):
    """Four workers: a gather or scatter of a layer takes 3/4 MB at 20 MB/s, 37.5 ms. Nothing runs
    beside anything: gathers of three layers forward and three backward in each pass, three
    scatters at the end, 90 ms of computing a pass.
    """
    sharded = {"kind": "sharded", "unit_size": "1 MB"}
    steps = simulate(accumulating(2, 4, aggregation=sharded, run={"engine": engine})).steps
    np.testing.assert_allclose(steps.step, 2 * (6 * 0.0375 + 0.09) + 3 * 0.0375, rtol=1e-8)


def test_hybrid_sharding_on_two_nodes_of_two_on_paper(accumulating, hybrid_node):
    """Shards of half a model in each node, where links take no time: gathers and scatters are
    free. The cards take what replicas all-reduce: each of two GPUs sends half of 3 MB twice half,
    so that a card carries 3 MB at 20 MB/s in each direction: 150 ms after 90 ms of computing.
    """
    sharded = {"kind": "sharded", "shard_group": "node", "unit_size": "1 MB"}
    scenario = accumulating(1, 2, cluster={"node": hybrid_node}, aggregation=sharded)
    result = simulate(scenario)
    np.testing.assert_allclose(result.steps.step, 0.09 + 0.15, rtol=1e-6)
    # Gathers and scatters in pairs: 3 x S / 2 a worker; replicas: 2 x 1/2 of S / 2.
    assert result.traffic.sent_in_total == 4 * (3 * 1.5e6 + 1.5e6)


def test_groups_must_come_out_even(accumulating):
    sharded = {"kind": "sharded", "shard_group": 3}
    with pytest.raises(DpsimError, match="shard_group: must divide the 4 workers, but got 3"):
        simulate(accumulating(1, 4, aggregation=sharded))


def test_a_single_process_scatters_before_it_replicates_in_every_pass(accumulating, hybrid_node):
    """As torch's DataParallel does; what has no bytes is there all the same."""
    aggregation = {"kind": "host", "way": "single-process"}
    scenario = accumulating(
        2, 1, cluster={"node": hybrid_node}, aggregation=aggregation, overlap="sequential"
    )
    program = prepare(scenario).program
    assert [(call.name, call.ready) for call in planned(prepare(scenario), grouped=False)] == [
        *(("samples", 0), ("replicate", 0), ("outputs", 3), ("gradients", 6)),
        *(("samples", 6), ("replicate", 6), ("outputs", 9), ("gradients", program.end)),
    ]


def test_shard_groups_run_by_nccl(tiny):
    """Two nodes of eight: what is sent is that of ideal rings, and no link beats its rate."""
    cluster = {"nodes": 2, "node": "dgx-a100", "network": {"fabric": "leaf-spine"}}
    sharded = {"kind": "sharded", "shard_group": "node"}
    ideal, nccl = (
        simulate(tiny(2, cluster=cluster, aggregation={**sharded, "library": library}))
        for library in ("ideal", "nccl")
    )
    assert nccl.traffic.sent_in_total == ideal.traffic.sent_in_total
    assert 0 < nccl.traffic.busiest_link_utilisation <= 1
    assert nccl.step_time_s["mean"] > ideal.step_time_s["mean"]


@pytest.mark.parametrize("engine", ENGINES)
def test_groups_by_nccl_share_a_card_once(tiny, engine):
    """Eight pairs of replicas all-reduce 0.25 MB each over two cards of 1 MB/s: 1 s of bytes.

    A single pair has a card for itself, and four that meet there take turns: what NCCL takes beside
    the bytes does not make it twice as long.
    """
    nic = {"rate": "1 MB/s", "latency": 0}
    network = {"fabric": "single-switch", "nic": nic, "nics_per_node": 2}
    cluster = {"nodes": 2, "node": "dgx-a100", "network": network}
    hybrid = {"kind": "sharded", "shard_group": "node", "library": "nccl"}
    result = simulate(tiny(2, cluster=cluster, aggregation=hybrid, run={"engine": engine}))
    assert result.engine == engine
    assert 1 < result.parts_s["exposed_comm"] < 1.5


@pytest.mark.parametrize("nodes", [2, 8])
def test_groups_that_meet_on_a_card_are_no_faster_than_nccl_drives_it(tiny, nodes):
    """By sockets it reaches 0.91 of a card, whether one group sends or four do, event by event."""
    network = {"fabric": "single-switch", "nic": "25GbE", "nics_per_node": 2}
    cluster = {"nodes": nodes, "node": "dgx-a100", "network": network}
    hybrid = {"kind": "sharded", "shard_group": "node", "library": "nccl"}
    both = [
        simulate(
            tiny(
                nodes,
                cluster=cluster,
                workload={"model": "gpt2"},
                aggregation=hybrid,
                overlap={"kind": "sequential"},
                run={"engine": engine},
            )
        )
        for engine in ENGINES
    ]
    vector, events = (result.parts_s["exposed_comm"] for result in both)
    assert vector == pytest.approx(events, rel=1e-9)


@pytest.fixture
def hybrid_node():
    """Two GPUs whose links inside take no time, behind one card."""
    gpu = {"peak": {"fp32": "1 TFLOP/s"}, "memory": "16 GB", "memory_bandwidth": "3 PB/s"}
    instant = {"rate": "1 PB/s", "latency": 0}
    return {
        "gpu": gpu,
        "devices": {"gpu": 2, "cpu": 1},
        "edges": [{"between": [f"gpu{number}", "cpu0"], "link": instant} for number in range(2)],
        "nic_slots": ["cpu0"],
        "nic_bus": instant,
        "nics": {"link": instant},
    }


@pytest.mark.parametrize(
    ("passes", "each_pass", "share"), [(1, False, 4), (2, True, 4), (2, False, 1)]
)
def test_gradients_are_whole_where_they_add_up_over_passes(accumulating, passes, each_pass, share):
    """Shards of a quarter on four workers; under no_sync the whole of 3 MB until the last pass."""
    sharded = {"kind": "sharded", "gradients": {"sync_each_pass": each_pass}}
    memory = simulate(accumulating(passes, 4, aggregation=sharded)).memory
    assert memory.held.gradients == 3e6 / share
    assert memory.held.weights == 3e6 / 4


def test_a_shard_group_holds_a_whole_model(accumulating, hybrid_node):
    sharded = {"kind": "sharded", "shard_group": "node"}
    held = simulate(accumulating(1, 2, cluster={"node": hybrid_node}, aggregation=sharded)).memory
    assert (held.held.weights, held.held.gradients) == (1.5e6, 1.5e6)


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("model", ["bundle", "flows"])
def test_groups_of_two_that_share_their_cards_on_paper(accumulating, engine, model):
    """GPUs of a node meet over links of 50 MB/s, nodes over one card of 20 MB/s each.

    The three layers are gathered as one, 1.5 MB each way in 30 ms, before each pass. A layer is
    scattered, 0.5 MB in 10 ms; then two pairs of replicas all-reduce 0.5 MB at once, in two rounds
    of 0.25 MB each, for which they share the cards: 50 ms. Passes take 30 and 60 ms.
    """
    link = {"rate": "50 MB/s", "latency": 0}
    node = {
        "gpu": {"peak": {"fp32": "1 TFLOP/s"}, "memory": "16 GB", "memory_bandwidth": "3 PB/s"},
        "devices": {"gpu": 2, "cpu": 1},
        "edges": [{"between": [f"gpu{number}", "cpu0"], "link": link} for number in range(2)],
        "nic_slots": ["cpu0"],
        "nic_bus": {"rate": "1 TB/s", "latency": 0},
        "nics": {"link": {"rate": "1 TB/s", "latency": 0}},
    }
    hybrid = {"kind": "sharded", "shard_group": "node", "library": "ideal"}
    run = {"engine": engine, "network_model": model}
    result = simulate(accumulating(1, aggregation=hybrid, cluster={"node": node}, run=run))
    expected = 2 * 0.03 + 0.03 + 0.06 + 3 * (0.01 + 0.05)
    np.testing.assert_allclose(result.steps.step, expected, rtol=1e-6)
    assert result.engine == engine
