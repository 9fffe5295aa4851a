"""Which buckets and which sharding a traced step should have."""

import json

import pytest
from json_docs import documented_keys

from dpsim import load_scenario, simulate
from dpsim.base.errors import DpsimError
from dpsim.engine import Recording, run_scenario
from dpsim.engine.calls import planned
from dpsim.studies.advise import StepParts, advise
from dpsim.studies.advise.buckets import DEFAULT, MIB, Backward, Gradient, fill_buckets
from dpsim.studies.advise.line import Line, fit_line
from dpsim.studies.advise.units import Passes, Sharding, Unit
from dpsim.workload import MeasuredCollective, MeasuredTimes, ModelProfile, ProfileLayer

LAYERS = 40
ELEMENTS = MIB  # of a layer: 4 MiB of gradients


def call(nbytes, start, duration, operation="allreduce"):
    return MeasuredCollective(
        operation=operation, payload_bytes=nbytes, ranks=8, start_s=start, duration_s=duration
    )


def profile(calls, each=1e-3, elements=ELEMENTS):
    """Layers alike, each ``each`` s forward and twice that backward."""
    layers = tuple(
        ProfileLayer(name=f"h.{index}", kind="linear", parameters=(elements,) if elements else ())
        for index in range(LAYERS)
    )
    measured = MeasuredTimes(
        batch_sizes=(1,),
        forward_s=((each,) * LAYERS,),
        backward_s=((2 * each,) * LAYERS,),
        gradient_ready_s=(tuple(2 * each * (LAYERS - index) for index in range(LAYERS)),),
        optimizer_s=(0.004,),
    )
    return ModelProfile(name="traced", layers=layers, measured=measured, collectives=tuple(calls))


def traced(choice, line, each=1e-3):
    """The calls of a step with such buckets, as the model has them."""
    gradients = [Gradient(4 * ELEMENTS, 2 * each * (index + 1)) for index in range(LAYERS)]
    calls, free = [], 0.0
    for nbytes, ready in fill_buckets(gradients, choice):
        start = max(free, ready)
        free = start + line.seconds(nbytes)
        calls.append(call(int(nbytes), start, free - start))
    return calls


def test_the_line_goes_through_calls_that_lie_on_one():
    calls = [call(size, 0.0, 2e-4 + 1e-10 * size) for size in (10**6, 10**7, 10**8, 10**8)]
    line = fit_line(calls)
    assert (line.latency, line.per_byte) == (pytest.approx(2e-4), pytest.approx(1e-10))
    assert line.error == pytest.approx(0, abs=1e-9)


def test_one_size_does_not_determine_the_latency():
    line = fit_line([call(10**7, 0.0, 2e-3), call(10**7, 0.1, 6e-3), call(10**7, 0.2, 2e-3)])
    assert (line.latency, line.per_byte) == (0.0, pytest.approx(2e-10))


def test_buckets_close_when_they_hold_their_limit():
    gradients = [Gradient(4 * MIB, float(when)) for when in range(6)]
    assert [(size / MIB, ready) for size, ready in fill_buckets(gradients, (8.0, 1.0))] == [
        (4, 0.0),
        (8, 2.0),
        (8, 4.0),
        (4, 5.0),
    ]


def test_calls_that_cost_much_beside_their_bytes_want_large_buckets():
    slow = Line(20e-3, 1e-11, 0.0, 4 * MIB, 64 * MIB)
    found = advise(profile(traced((5.0, 1.0), slow)))
    assert found.strategy == "ddp"
    assert found.bucket_cap_mb > 25
    assert found.gain > found.error
    assert not found.within_error
    assert f"{found.bucket_cap_mb:g}" in found.code


def test_calls_that_cost_only_their_bytes_want_small_buckets():
    # As fast as gradients come: what is left is the last bucket.
    even = Line(1e-6, 2e-3 / (4 * MIB), 0.0, 4 * MIB, 400 * MIB)
    found = advise(profile(traced((100.0, 100.0), even)))
    assert found.bucket_cap_mb <= 25
    assert found.gain > 0.05


def test_the_best_is_the_best_of_all_that_were_tried():
    gradients = tuple(Gradient(4 * MIB, 2e-3 * (index + 1)) for index in range(LAYERS))
    backward = Backward(gradients, 0.08, Line(8e-4, 3e-10, 0.0, MIB, 64 * MIB))
    ends = {choice: backward.with_buckets(choice) for choice in backward._choices()}
    assert backward.with_buckets(backward.best()) <= min(ends.values()) * 1.001


def test_where_everything_is_hidden_torchs_own_sizes_stay():
    fast = Line(1e-6, 1e-14, 0.0, MIB, 64 * MIB)
    found = advise(profile(traced(DEFAULT, fast)))
    assert (found.bucket_cap_mb, found.first_bucket_mb) == DEFAULT
    assert found.gain == pytest.approx(0, abs=1e-9)
    assert found.within_error
    assert found.code == "model = DistributedDataParallel(model)"


def test_a_model_that_is_off_makes_a_gain_doubtful():
    slow = Line(5e-3, 1e-11, 0.0, 4 * MIB, 64 * MIB)
    calls = traced((5.0, 1.0), slow)
    late = [*calls[:-1], calls[-1].model_copy(update={"start_s": calls[-1].start_s + 0.5})]
    assert not advise(profile(calls)).within_error
    assert advise(profile(late)).within_error


def test_of_one_size_what_a_call_costs_beside_its_bytes_is_in_the_error():
    one = [call(4 * ELEMENTS * LAYERS, 2e-3 * LAYERS, 0.05)]
    found = advise(profile(one))
    assert found.error > 0.05
    assert any("cannot be told" in note for note in found.notes)


def test_without_shapes_gradients_are_spread_by_times():
    found = advise(profile(traced(DEFAULT, Line(1e-3, 1e-11, 0.0, MIB, 1)), elements=0))
    assert any("no shapes" in note for note in found.notes)


def test_a_traced_step_is_as_long_as_it_was_with_its_idle_time():
    """What is saved is the model's; gaps between kernels stay."""
    slow = Line(20e-3, 1e-11, 0.0, 4 * MIB, 64 * MIB)
    calls = traced((5.0, 1.0), slow)
    model = advise(profile(calls))
    found = advise(profile(calls), StepParts(2 * model.step_s, model.step_s, 0.1, 0.05))
    saved = model.step_s - model.best_s
    assert saved > 0
    assert found.step_s == 2 * model.step_s
    assert found.step_s - found.best_s == pytest.approx(saved)
    assert (found.gain, found.error) == pytest.approx((model.gain / 2, model.error / 2))
    assert found.idle_s == model.step_s


@pytest.mark.parametrize(
    "calls", [[], [call(0, 0.0, 1e-3)], [call(8, 0.0, 0.0)], [call(8, 0.0, 1e-3, "broadcast")]]
)
def test_without_collectives_there_is_nothing_to_advise(calls):
    with pytest.raises(DpsimError, match="must have collectives of gradients"):
        advise(profile(calls))


# Fully sharded


def passes(gather, scatter=1e-4, layers=12):
    unit = Unit(2e-3, 4e-3, 32 * MIB, 32 * MIB)
    return Passes(
        (unit,) * layers,
        Line(1e-4, gather / (32 * MIB), 0.0, 32 * MIB, 32 * MIB),
        Line(1e-4, scatter / (32 * MIB), 0.0, 32 * MIB, 32 * MIB),
    )


def test_a_step_of_units_by_hand():
    two = Passes(
        (Unit(2.0, 4.0, 10, 10),) * 2, Line(0.0, 0.1, 0, 10, 10), Line(0.0, 0.05, 0, 10, 10)
    )
    # Nothing ahead in backward: gather 1, forward 4, backward 4, scatter 0.5, gather 1, backward 4,
    # scatter 0.5.
    assert two.seconds(Sharding(10, 0, True)) == pytest.approx(15.0)
    # Kept weights are not gathered again, and the first scatter runs beside the last backward.
    assert two.seconds(Sharding(10, 0, False)) == pytest.approx(13.5)
    # One ahead: only the first gather is waited for.
    assert two.seconds(Sharding(10, 1, True)) == pytest.approx(13.5)


def test_what_is_gathered_ahead_hides():
    hidden = passes(gather=1e-3)
    assert hidden.seconds(Sharding(1, 1, True)) < hidden.seconds(Sharding(1, 0, True))


def fsdp_calls(gather=1e-3, scatter=1e-3):
    shard = 4 * ELEMENTS // 8
    first = [call(shard, -0.04 + 1e-3 * i, gather, "_allgather_base") for i in range(LAYERS)]
    again = [call(shard, 2e-3 * i, gather, "_allgather_base") for i in range(LAYERS)]
    last = [
        call(4 * ELEMENTS, 2e-3 * (i + 1), scatter, "_reduce_scatter_base") for i in range(LAYERS)
    ]
    return [*first, *again, *last]


def test_fully_sharded_steps_get_units_ahead_and_what_is_freed():
    found = advise(profile(fsdp_calls(gather=3e-3)))
    assert found.strategy == "fsdp"
    assert (found.bucket_cap_mb, found.first_bucket_mb) == (None, None)
    assert found.reshard_after_forward is False  # gathers are the limit: once is enough
    assert "SHARD_GRAD_OP" in found.code
    assert found.gain > 0.1
    assert any("keeping weights takes 160 MiB more" in note for note in found.notes)


def test_units_that_were_not_gathered_ahead_are_seen_to_be_late():
    """Each gather again waits for the scatter before it, and each backward pass for that gather."""
    wire, turn, shard = 5e-4, 2e-3 + 2 * 5e-4, 4 * ELEMENTS // 8
    first = [call(shard, -0.041 + 1e-3 * i, wire, "_allgather_base") for i in range(LAYERS)]
    again = [call(shard, turn * i - wire, wire, "_allgather_base") for i in range(LAYERS)]
    last = [
        call(4 * ELEMENTS, turn * i + 2e-3, wire, "_reduce_scatter_base") for i in range(LAYERS)
    ]
    found = advise(profile([*first, *again, *last]))
    # Forward, backward with what it waits for, the last scatter and the update.
    assert found.step_s == pytest.approx(0.04 + LAYERS * turn + 0.004, rel=0.01)
    assert (found.prefetch, found.reshard_after_forward) == (1, True)
    assert found.best_s == pytest.approx(0.04 + LAYERS * 2e-3 + wire + 0.004, rel=0.01)
    assert found.error < 0.02
    assert "BACKWARD_PRE" in found.code


def test_where_gathers_hide_nothing_is_changed():
    found = advise(profile(fsdp_calls(gather=1e-5, scatter=1e-5)))
    assert found.reshard_after_forward is True
    assert found.unit_mb == pytest.approx(4)


def test_the_command_answers_with_the_documented_keys(dpsim, tmp_path, monkeypatch):
    from pathlib import Path

    root = Path(__file__).parents[2]
    monkeypatch.syspath_prepend(str(root / "tests" / "imports"))
    from kineto_traces import gpu_trace, write

    file = write(tmp_path / "trace.json", gpu_trace())
    code, out, _ = dpsim("advise", file, "--json")
    assert code == 0
    answer = json.loads(out)
    assert list(answer) == ["schema_version", "kind", *documented_keys("dpsim advise")]
    code, out, _ = dpsim("advise", file)
    assert code == 0
    assert "DistributedDataParallel(model" in out
    # As dpsim import kineto says of the same trace.
    assert "step        1 ms as traced" in out
    assert "idle for 748 us" in out


def test_a_trace_of_one_process_is_an_error(dpsim):
    from pathlib import Path

    file = Path(__file__).parents[1] / "imports" / "data" / "cpu.kineto.json"
    code, _, err = dpsim("advise", file)
    assert code == 2
    assert "must have collectives of gradients" in err


def profile_of_engine(scenario):
    """The trace that a simulated step would leave: its layers' times and its all-reduces."""
    run = run_scenario(scenario, Recording(1, workers=1))
    job = run.job
    times, program = job.times[0], job.program
    begin = float(job.positions[program.turn(0), 0])
    ready = [
        float(job.positions[program.after_backward(0, layer), 0]) - begin
        for layer in range(program.layers)
    ]
    sent = [each for each in run.intervals(0, 1) if each.stream == "communication"]
    start = run.boundaries()[0, 0]
    calls = [
        call(bucket.nbytes, each.start - start - begin, each.end - each.start)
        for bucket, each in zip(planned(job, grouped=False), sent, strict=True)
    ]
    measured = MeasuredTimes(
        batch_sizes=(scenario.workload.batch_per_gpu,),
        forward_s=(tuple(times.forward.tolist()),),
        backward_s=(tuple(times.backward.tolist()),),
        gradient_ready_s=(tuple(ready),),
        optimizer_s=(times.optimizer,),
    )
    layers = tuple(
        ProfileLayer(name=layer.name, kind=layer.kind, parameters=layer.parameters)
        for layer in job.model.layers
    )
    made = ModelProfile(name="simulated", layers=layers, measured=measured, collectives=calls)
    return made, run.result


@pytest.mark.parametrize(
    ("model", "batch", "nodes", "traced"),
    [("resnet50", 16, 32, 2), ("resnet50", 64, 4, 400), ("resnet50", 64, 4, 8)],
)
def test_the_engine_gains_what_is_advised(model, batch, nodes, traced):
    def scenario(cap, first):
        buckets = f"{{kind: buckets, bucket_size: {cap:g} MiB, first_bucket: {first:g} MiB}}"
        return load_scenario(
            "scenarios/quickstart.yaml",
            [
                f"workload.model={model}",
                f"workload.batch_per_gpu={batch}",
                f"cluster.nodes={nodes}",
                "disturbance.jitter=null",
                "run={steps: 1, warmup: 0}",
                # Whose time is a line in bytes beyond what was traced, too.
                "strategy.aggregation.library=ideal",
                f"strategy.overlap={buckets}",
            ],
        )

    profile, before = profile_of_engine(scenario(traced, min(traced, 2)))
    found = advise(profile)
    after = simulate(scenario(found.bucket_cap_mb, found.first_bucket_mb))
    gain = 1 - after.step_time_s["mean"] / before.step_time_s["mean"]
    # Passes lose to what is communicated beside them, by where buckets end: a point at most.
    assert found.gain == pytest.approx(gain, abs=found.error + 0.01)
    assert found.within_error == (traced == 8)
