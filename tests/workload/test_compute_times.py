from dataclasses import replace
from functools import partial

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpsim import load_scenario
from dpsim.base.errors import DpsimError
from dpsim.engine import prepare
from dpsim.hardware import gpus
from dpsim.workload import (
    MODELS,
    PARTS,
    WIDTH,
    Accelerator,
    Constants,
    Layer,
    MeasuredTimes,
    Model,
    Recompute,
    Software,
    build_model,
    compute_times,
    constants_file,
    constants_for,
    members_of,
)
from dpsim.workload.compute_law import is_winograd
from dpsim.workload.software import BY_TIER

V100 = Accelerator("v100", {"fp32": 15.7e12, "fp16": 125e12}, 900e9, "volta")
IDEAL = Constants()
RESNET = build_model("resnet50")


def one(**amounts):
    return Model("one", (Layer("layer", **amounts),), "sample")


def machine(peak=1e12, bandwidth=1e9, generation="other", power=None):
    return Accelerator("machine", dict.fromkeys(WIDTH, peak), bandwidth, generation, power)


def catalogue_gpu(name):
    gpu = gpus()[name]
    peaks = {precision: peak.value for precision, peak in gpu.peak.items()}
    return Accelerator(
        gpu.name, peaks, gpu.memory_bandwidth.value, gpu.architecture, gpu.power.value
    )


def test_bound_by_arithmetic():
    model = one(kind="linear", forward_flop=10**9, backward_flop=2 * 10**9, forward_traffic=1)
    times = compute_times(model, machine(), batch=4, constants=IDEAL)
    assert (times.forward.tolist(), times.optimizer) == ([pytest.approx(4e-3)], 0.0)
    assert times.backward.tolist() == [pytest.approx(8e-3)]


def test_bound_by_memory_at_the_width_of_the_precision():
    model = one(
        kind="linear",
        parameters=(700, 300),
        forward_flop=1,
        backward_flop=2,
        forward_traffic=1000,
        backward_traffic=2000,
    )
    for precision, width in (
        ("fp32", 4),
        ("tf32", 4),
        ("fp16", 2),
        ("bf16", 2),
        ("fp8", 2),
        ("nvfp4", 2),
    ):
        times = compute_times(model, machine(), batch=5, precision=precision, constants=IDEAL)
        assert times.forward.tolist() == [pytest.approx(width * (5 * 1000 + 1000) / 1e9)]
        # Weights are read for the gradient by the input, and the gradient by the weights is
        # written.
        assert times.backward.tolist() == [pytest.approx(width * (5 * 2000 + 2 * 1000) / 1e9)]


def test_embedding_reads_rows_and_writes_the_whole_gradient():
    model = one(kind="embedding", parameters=(10**6,), forward_traffic=20, backward_traffic=30)
    times = compute_times(model, machine(), batch=2, constants=IDEAL)
    assert times.forward.tolist() == [pytest.approx(4 * 40 / 1e9)]
    assert times.backward.tolist() == [pytest.approx(4 * (60 + 10**6) / 1e9)]


@pytest.mark.parametrize(
    ("optimizer", "nbytes"),
    # LARS reads weight and gradient once more for their norms; LAMB writes its step, reads it and
    # the weight for the norms, and both again to apply it.
    [
        ("sgd", 12),
        ("momentum", 20),
        ("adagrad", 20),
        ("adam", 28),
        ("adamw", 28),
        ("adamw-8bit", 12 + 4 * (1 + 4 / 256)),  # the scale of a block of 256 is in fp32
        ("lars", 20 + 8),
        ("lamb", 28 + 20),
    ],
)
def test_update_moves_weights_gradient_and_state(optimizer, nbytes):
    times = compute_times(RESNET, machine(), batch=1, optimizer=optimizer, constants=IDEAL)
    assert times.optimizer == pytest.approx(nbytes * 25_557_032 / 1e9)


def test_update_of_many_small_tensors_is_bound_by_launches():
    model = one(kind="norm", parameters=(1, 1, 1))
    constants = replace(IDEAL, launch=1e-3, update_kernels=4.0, step=0.5)
    assert compute_times(model, machine(), batch=1, constants=constants).optimizer == pytest.approx(
        3 * 4e-3 + 0.5
    )


def test_who_updates_a_part_still_pays_what_a_step_costs_beside_it():
    constants = replace(IDEAL, step=0.5)
    timed = partial(compute_times, RESNET, machine(), batch=1, constants=constants)
    whole = timed().optimizer - 0.5
    assert timed(updated=0.25).optimizer == pytest.approx(0.25 * whole + 0.5)
    assert timed(updated=0.0).optimizer == 0.5


@pytest.mark.parametrize(
    ("precision", "share"), [("fp32", 0.8), ("tf32", 0.5), ("fp16", 0.4), ("bf16", 0.4)]
)
def test_measured_shares_hold_for_their_precision(precision, share):
    measured = {"product_fp32": 0.8, "product_tf32": 0.5, "product_half": 0.4, "memory": 0.5}
    constants = IDEAL.measured(measured, precision)
    assert constants.memory == 0.5
    model = one(kind="linear", forward_flop=10**9)
    times = compute_times(model, machine(), batch=1, precision=precision, constants=constants)
    assert times.forward[0] == pytest.approx(1e-3 / share)


@pytest.mark.parametrize("precision", ["fp8", "nvfp4"])
def test_narrow_products_speed_up_linear_layers_of_blocks_and_cast_what_they_read(precision):
    shape = {"forward_flop": 2 * 10**9, "forward_traffic": 1000, "shape": (1, 10**3, 10**6)}
    layers = (Layer("h.0.mlp", "linear", **shape), Layer("head", "linear", **shape))
    # Whose peak in that precision is twice bf16's.
    on = [with_twice(precision, machine(bandwidth=rate)) for rate in (1e6, 1e30)]
    constants = replace(IDEAL, **{"fp8": 5.0, "nvfp4": 5.0, precision: 2.0}, casts=3.0)
    times = compute_times(
        Model("m", layers, "s"),
        on[0],
        batch=1,
        precision=precision,
        constants=constants,
    )
    plain = compute_times(
        Model("m", layers, "s"), on[1], batch=1, precision=precision,
        constants=replace(constants, casts=0.0),
    )  # fmt: skip
    assert plain.forward == pytest.approx([1e-3, 2e-3])
    # Three times 2,000 bytes at 1 MB/s, beside what the product itself reads and writes.
    without = compute_times(
        Model("m", layers, "s"), on[0], batch=1, precision=precision,
        constants=replace(constants, casts=0.0),
    )  # fmt: skip
    assert times.forward - without.forward == pytest.approx([6e-3, 0.0])
    same = compute_times(
        Model("m", layers, "s"), machine(bandwidth=1e30), batch=1, precision=precision,
        constants=replace(constants, casts=0.0),
    )  # fmt: skip
    # No faster than the peak where that is bf16's.
    assert same.forward == pytest.approx([2e-3, 2e-3])


def with_twice(precision, gpu):
    peaks = {**gpu.peak_flop_per_s, precision: 2 * gpu.peak_flop_per_s["fp16"]}
    return replace(gpu, peak_flop_per_s=peaks)


def test_computing_and_moving_are_a_smooth_maximum():
    model = one(kind="linear", forward_flop=10**9, forward_traffic=250_000)  # 1 ms each
    times = compute_times(model, machine(), batch=1, constants=IDEAL)
    assert times.forward[0] == pytest.approx(2**0.5 * 1e-3)


def test_a_product_on_matrix_units_computes_as_if_it_had_more_inner_terms():
    model = one(kind="linear", parameters=(6,), forward_flop=12, backward_flop=24, shape=(1, 2, 3))
    gpu = machine(peak=1.0, bandwidth=1e30, generation="ampere")
    times = compute_times(
        model, gpu, batch=5, precision="bf16", constants=replace(IDEAL, inner_ramp=7.0)
    )
    # 12 FLOP a sample with 2 inner terms; backward 3 by the input, and by the weights 5 rows.
    assert times.forward[0] == pytest.approx(5 * 12 * (2 + 7) / 2)
    assert times.backward[0] == pytest.approx(5 * 24 + 5 * 12 * 7 / 3 + 2 * 7 * 6)
    plain = compute_times(model, gpu, batch=5, constants=replace(IDEAL, inner_ramp=7.0))
    assert plain.forward[0] == pytest.approx(5 * 12)


@pytest.mark.parametrize(
    ("generation", "precision", "layout", "more"),
    [
        ("ampere", "fp16", "channels_first", 3.0),
        ("ampere", "fp16", "channels_last", 1.0),
        ("ampere", "fp32", "channels_first", 1.0),
        ("pascal", "fp16", "channels_first", 1.0),
    ],
)
def test_convolutions_on_matrix_units_transpose_images_that_are_channels_first(
    generation, precision, layout, more
):
    gpu, constants = machine(peak=1e30, generation=generation), replace(IDEAL, transposed=2.0)
    model = one(kind="conv", forward_flop=1, forward_traffic=1000)
    times = compute_times(
        model, gpu, batch=1, precision=precision, software=Software(memory_format=layout),
        constants=constants,
    )  # fmt: skip
    width = 4 if precision == "fp32" else 2
    assert times.forward[0] == pytest.approx(more * 1000 * width / 1e9)


def test_boards_with_fewer_watts_a_flop_keep_less_of_their_clock():
    constants = replace(IDEAL, clock_power=0.5, watts=4e-10)
    seconds = [
        compute_times(
            one(kind="linear", forward_flop=10**12), machine(power=watts), batch=1,
            constants=constants,
        ).forward[0]
        for watts in (400.0, 100.0, 800.0)
    ]  # fmt: skip
    assert seconds == pytest.approx([1.0, 2.0, 1.0])


def test_sharded_kernels_update_a_share():
    def update(*changes):
        node = ["cluster={node: dgx1-v100}", *changes]
        return prepare(load_scenario("scenarios/quickstart.yaml", node), IDEAL).times[0].optimizer

    sharded = "workload.optimizer_kernels=sharded"
    assert update(sharded) == pytest.approx(update() / 8)


def test_a_product_takes_its_ramp_once_for_each_step_of_a_recurrence():
    model = one(kind="linear", forward_flop=10**9, steps=3)
    assert compute_times(model, machine(), batch=1, constants=replace(IDEAL, ramp=0.25)).forward[
        0
    ] == pytest.approx(0.751)


def test_recurrences_run_in_fp32_with_tf32():
    gpu = Accelerator("g", {"fp32": 1e12, "tf32": 8e12}, 1e30)
    separate, recurrent = (one(kind="linear", forward_flop=10**12, steps=steps) for steps in (1, 2))
    seconds = [
        compute_times(model, gpu, batch=1, precision="tf32", constants=IDEAL).forward[0]
        for model in (separate, recurrent)
    ]
    assert seconds == [pytest.approx(1 / 8), pytest.approx(1)]


@pytest.mark.parametrize(("generation", "seconds"), [("pascal", 1.0), ("volta", 0.5)])
def test_half_precision_without_matrix_units_saves_bytes_only(generation, seconds):
    gpu = Accelerator("g", {"fp32": 1e12, "fp16": 2e12}, 1e30, generation)
    times = compute_times(
        one(kind="conv", forward_flop=10**12), gpu, batch=1, precision="fp16", constants=IDEAL
    )
    assert times.forward[0] == pytest.approx(seconds)


@pytest.mark.parametrize(("power", "seconds"), [(70.0, 2.0), (250.0, 1.0), (None, 1.0)])
def test_a_small_board_does_not_keep_its_clock(power, seconds):
    constants = replace(IDEAL, throttle=0.5)
    times = compute_times(
        one(kind="conv", forward_flop=10**12), machine(power=power), batch=1, constants=constants
    )
    assert times.forward[0] == pytest.approx(seconds)


def test_which_convolutions_fast_algorithms_serve():
    resnet = {layer.name: layer for layer in RESNET.layers}
    assert is_winograd(resnet["layer1.0.conv2"])  # 3x3, stride 1
    assert not is_winograd(resnet["layer1.0.conv1"])  # 1x1
    assert not is_winograd(resnet["layer2.0.conv2"])  # 3x3, stride 2
    assert not is_winograd(resnet["conv1"])  # 7x7, stride 2, three channels
    seven = [
        layer
        for layer in build_model("inception-v3").layers
        if layer.name.endswith("branch7x7_2.conv")
    ]
    assert seven
    assert not any(is_winograd(layer) for layer in seven)  # 1x7


# The host and the GPU


def test_kernels_queue_and_the_step_takes_the_longer_of_launching_and_computing():
    layers = tuple(
        Layer(f"{i}", "conv", (8,), forward_flop=10**9, backward_flop=2 * 10**9) for i in range(10)
    )
    model = Model("m", layers, "sample")
    device, host = 30e-3, 30e-3  # 10 x (1 + 2) ms at peak, 30 kernels at 1 ms
    for factor in (0.01, 1.0, 100.0):
        times = compute_times(
            model, machine(bandwidth=1e30), batch=1, constants=replace(IDEAL, launch=1e-3 * factor)
        )
        passes = times.forward.sum() + times.backward.sum()
        assert passes >= max(device, host * factor) * (1 - 1e-12)
        assert passes <= (max(device, host * factor) + 2e-3 * max(factor, 1)) * (
            1 + 1e-12
        )  # the first launch, the last kernel


def test_a_long_kernel_hides_the_launches_of_short_ones_behind_it():
    long, short = Layer("long", "conv", forward_flop=10**10), Layer("short", "conv", forward_flop=1)
    model = Model("m", (long, short, short), "sample")
    times = compute_times(
        model, machine(bandwidth=1e30), batch=1, constants=replace(IDEAL, launch=1e-3)
    )
    assert times.forward == pytest.approx([11e-3, 0, 0], abs=1e-9)


def test_launches_per_kernel():
    layers = (
        Layer("first", "conv", (8,), forward_flop=1, backward_flop=1),
        Layer("second", "conv", (8,), forward_flop=1, backward_flop=2),
        Layer("relu", "elementwise", forward_traffic=2, backward_traffic=3),
        Layer("constant", "elementwise", forward_traffic=2),
    )
    times = compute_times(
        Model("m", layers, "sample"),
        machine(1e30, 1e30),
        batch=1,
        constants=replace(IDEAL, launch=1.0),
    )
    assert times.forward == pytest.approx([1, 1, 1, 1])
    assert times.backward == pytest.approx([1, 2, 1, 0])
    assert times.step == pytest.approx(8)


# Accumulation and checkpointing


@pytest.mark.parametrize("passes", [1, 2, 7])
def test_accumulation_multiplies_the_passes_and_not_the_update(passes):
    single = compute_times(RESNET, V100, batch=8)
    several = compute_times(RESNET, V100, batch=8, accumulation=passes)
    assert several.forward.tolist() == single.forward.tolist()
    assert several.step - several.optimizer == pytest.approx(
        passes * (single.step - single.optimizer)
    )
    assert several.optimizer == single.optimizer


@pytest.mark.parametrize("every", [1, 2, 5, 1000])
@pytest.mark.parametrize(
    "constants", [IDEAL, replace(IDEAL, launch=1.0)], ids=["computing", "launching"]
)
def test_checkpointing_costs_one_more_forward(every, constants):
    kept, again = (
        compute_times(
            RESNET, V100, batch=8, recompute=n and Recompute(layers=n), constants=constants
        )
        for n in (None, every)
    )
    assert again.forward.tolist() == kept.forward.tolist()
    assert again.backward.sum() == pytest.approx(kept.backward.sum() + kept.forward.sum())


def test_a_segment_is_computed_again_before_the_backward_of_its_last_layer():
    layers = tuple(
        Layer(f"{i}", "conv", (8,), forward_flop=10**i, backward_flop=2 * 10**i) for i in range(5)
    )
    times = compute_times(
        Model("m", layers, "s"),
        machine(1.0, 1e30),
        batch=1,
        recompute=Recompute(layers=2),
        constants=IDEAL,
    )
    assert times.backward == pytest.approx([2, 20 + 11, 200, 2000 + 1100, 20000 + 10000])


# Measurements


def test_measured_layers_replace_computed_ones():
    measured = MeasuredTimes(
        batch_sizes=(4,), forward_s=((1.0,),), backward_s=((2.0,),), optimizer_s=(0.5,)
    )
    model = replace(one(kind="linear", parameters=(8,), forward_flop=1), measured=measured)
    times = compute_times(model, machine(), batch=8, accumulation=2, recompute=Recompute(layers=1))
    assert (times.forward.tolist(), times.backward.tolist(), times.optimizer) == ([2.0], [6.0], 0.5)
    assert times.passes == 2


# Laws


@pytest.mark.parametrize("name", ["vgg16", "gpt2"])
def test_large_batch_without_a_memory_wall_runs_at_the_large_share(name):
    model, batch = build_model(name), 10**6
    constants = constants_for(model, "volta", "fp32", Software())
    gpu = Accelerator("g", {"fp32": 1e13}, 1e30)
    times = compute_times(model, gpu, batch=batch, constants=constants)
    flop = sum(
        layer.forward_flop
        / (constants.conv if layer.kind == "conv" else constants.product)
        / (constants.winograd if is_winograd(layer) else 1.0)
        for layer in model.layers
    )
    assert times.forward.sum() == pytest.approx(flop * batch / 1e13, rel=1e-3)


def test_small_batch_is_worth_less_per_sample():
    per_sample = [compute_times(RESNET, V100, batch=b).step / b for b in (1, 8, 64)]
    assert per_sample[0] > 3 * per_sample[2]
    assert sorted(per_sample, reverse=True) == per_sample


@pytest.mark.parametrize("precision", ["fp32", "fp16"])
@pytest.mark.parametrize("batch", [1, 64])
def test_better_software_is_never_slower(precision, batch):
    def step(**words):
        words = Software(**words)
        return compute_times(RESNET, V100, batch=batch, precision=precision, software=words).step

    eager = step(optimizer_kernels="loop")
    assert step() <= eager
    assert step(optimizer_kernels="fused") <= step()
    for better in ({"execution": "compile"}, {"execution": "cuda-graph"}):
        assert step(**better) < step()
    assert step(memory_format="channels_last") <= step()


def test_statistics_of_each_tensor_launch_kernels_in_the_backward_pass():
    def step(batch, **words):
        return compute_times(RESNET, V100, batch=batch, software=Software(**words))

    (plain, more) = (step(1, **words) for words in ({}, {"gradient_statistics": "each-tensor"}))
    known = constants_for(RESNET, "volta", "fp32", Software(gradient_statistics="each-tensor"))
    launches = known.tensor_kernels * len(RESNET.tensors.elements) * known.launch
    # So small a batch waits for the host in both.
    assert more.one_pass - plain.one_pass == pytest.approx(launches, rel=0.05)
    assert more.optimizer == plain.optimizer
    assert step(1, gradient_statistics="each-tensor", execution="cuda-graph").step < more.step


@pytest.mark.parametrize("name", MODELS)
def test_vectors_are_in_layer_order_and_positive(name):
    model = build_model(name)
    times = compute_times(model, V100, batch=2, precision="fp16", optimizer="adam")
    assert times.forward.shape == times.backward.shape == (len(model.layers),)
    assert np.all(times.forward >= 0)
    assert times.forward.sum() > 0
    assert np.all(times.backward >= 0)
    assert times.step == pytest.approx(times.forward.sum() + times.backward.sum() + times.optimizer)


POSITIVE = st.floats(1e9, 1e15)


@given(
    peak=POSITIVE,
    bandwidth=POSITIVE,
    batch=st.integers(1, 10_000),
    factor=st.floats(1, 100),
    precision=st.sampled_from(tuple(WIDTH)),
)
def test_no_layer_ends_later_with_more_hardware_or_sooner_with_more_samples(
    peak, bandwidth, batch, factor, precision
):
    def ends(gpu, samples):
        times = compute_times(RESNET, gpu, batch=samples, precision=precision)
        return np.cumsum(np.concatenate([times.forward, times.backward[::-1], [times.optimizer]]))

    base = ends(machine(peak, bandwidth), batch)
    slack = 1 + 1e-9
    assert np.all(ends(machine(peak * factor, bandwidth), batch) <= base * slack)
    assert np.all(ends(machine(peak, bandwidth * factor), batch) <= base * slack)
    assert np.all(ends(machine(peak, bandwidth), batch + 1) * slack >= base)


# The fitted constants


def test_every_constant_has_a_value_a_unit_and_a_meaning():
    content = constants_file()
    for part in PARTS:
        for table in content[part].values():
            for entry in table.values():
                assert entry["value"] > 0
                assert entry["unit"]
                assert entry["meaning"]
                assert entry.get("error", 1.0) > 0


def test_how_many_constants_are_fitted():
    tables = [table for part in PARTS for table in constants_file()[part].values()]
    fitted = [entry for table in tables for entry in table.values() if "error" in entry]
    assert len(fitted) <= 62


@pytest.mark.parametrize("generation", sorted({gpu.architecture for gpu in gpus().values()}))
def test_shares_of_peak_and_of_bandwidth_are_shares(generation):
    for precision in ("fp32", "tf32", "bf16"):
        for tier in BY_TIER:
            constants = constants_for(RESNET, generation, precision, BY_TIER[tier])
            assert 0 < constants.memory <= 1
            assert constants.product > 0


# Rows of single_gpu.csv by NVIDIA and DLPerf: samples per second, and how far off they may be.
@pytest.mark.parametrize(
    ("model", "gpu", "batch", "precision", "rate", "within"),
    [
        ("resnet50", "v100-sxm2-16gb", 128, "fp32", 358, 0.2),
        ("resnet50", "v100-sxm2-16gb", 256, "fp16", 803, 0.25),
    ],
)
def test_published_rates(model, gpu, batch, precision, rate, within):
    step = compute_times(
        build_model(model), catalogue_gpu(gpu), batch=batch, precision=precision
    ).step
    assert batch / step == pytest.approx(rate, rel=within)


def test_missing_precision_says_what_there_is():
    with pytest.raises(
        DpsimError, match=r"must be a precision that the v100 has \(fp32, fp16\), but got 'bf16'"
    ):
        compute_times(RESNET, V100, batch=1, precision="bf16")


@pytest.mark.parametrize("name", ["batch", "accumulation"])
@pytest.mark.parametrize("number", [0, -3])
def test_numbers_below_one(name, number):
    with pytest.raises(DpsimError, match=f"{name} must be at least 1, but got {number}"):
        compute_times(RESNET, V100, **{"batch": 1, name: number})


@pytest.mark.parametrize(
    ("precision", "cores"), [("fp32", "volta"), ("fp16", "matrix units"), ("tf32", "matrix units")]
)
def test_products_in_fp32_run_on_plain_cores(precision, cores):
    """A V100 reaches another share of the peak of its plain cores than of its matrix units'."""
    members = members_of(build_model("resnet18"), "volta", precision, Software())
    assert members["cores"] == cores
    plain = constants_for(build_model("resnet18"), "volta", "fp32", Software()).product
    pascal = constants_for(build_model("resnet18"), "pascal", "fp32", Software()).product
    assert plain == pytest.approx(pascal, rel=0.15), "plain cores of both do much the same"
