from dataclasses import replace
from functools import partial

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpsim.base.errors import DpsimError
from dpsim.hardware import gpus
from dpsim.workload import (
    MODELS,
    PRECISIONS,
    Accelerator,
    Efficiency,
    Layer,
    Model,
    Recompute,
    build_model,
    compute_times,
    fitted,
)
from dpsim.workload.efficiency import constants, is_winograd
from dpsim.workload.profile import MeasuredTimes

V100 = Accelerator("v100", {"fp32": 15.7e12, "fp16": 125e12}, 900e9, "volta")
IDEAL = Efficiency(fractions={}, ramp=0.0, memory=1.0, launch=0.0)
RESNET = build_model("resnet50")


def one(**amounts):
    return Model("one", (Layer("layer", **amounts),), "sample")


def machine(peak=1e12, bandwidth=1e9, generation="other", power=None):
    return Accelerator("machine", dict.fromkeys(PRECISIONS, peak), bandwidth, generation, power)


def catalogue_gpu(name):
    gpu = gpus()[name]
    peaks = {precision: peak.value for precision, peak in gpu.peak.items()}
    return Accelerator(
        gpu.name, peaks, gpu.memory_bandwidth.value, gpu.architecture, gpu.power.value
    )


def test_bound_by_arithmetic():
    model = one(kind="linear", forward_flop=10**9, backward_flop=2 * 10**9, forward_traffic=1)
    times = compute_times(model, machine(), batch=4, efficiency=IDEAL)
    assert (times.forward.tolist(), times.optimizer) == ([4e-3], 0.0)
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
    for precision, width in (("fp32", 4), ("tf32", 4), ("fp16", 2), ("bf16", 2), ("fp8", 2)):
        times = compute_times(model, machine(), batch=5, precision=precision, efficiency=IDEAL)
        assert times.forward.tolist() == [pytest.approx(width * (5 * 1000 + 1000) / 1e9)]
        # Weights are read for the gradient by the input, and the gradient by the weights is
        # written.
        assert times.backward.tolist() == [pytest.approx(width * (5 * 2000 + 2 * 1000) / 1e9)]


def test_embedding_reads_rows_and_writes_the_whole_gradient():
    model = one(kind="embedding", parameters=(10**6,), forward_traffic=20, backward_traffic=30)
    times = compute_times(model, machine(), batch=2, efficiency=IDEAL)
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
        ("lars", 20 + 8),
        ("lamb", 28 + 20),
    ],
)
def test_update_moves_weights_gradient_and_state(optimizer, nbytes):
    times = compute_times(RESNET, machine(), batch=1, optimizer=optimizer, efficiency=IDEAL)
    assert times.optimizer == pytest.approx(nbytes * 25_557_032 / 1e9)


def test_update_of_many_small_tensors_is_bound_by_launches():
    model = one(kind="norm", parameters=(1, 1, 1))
    efficiency = replace(IDEAL, launch=1e-3, update_launches=4.0, step=0.5)
    assert compute_times(
        model, machine(), batch=1, efficiency=efficiency
    ).optimizer == pytest.approx(3 * 4e-3 + 0.5)


def test_who_updates_a_part_still_pays_what_a_step_costs_beside_it():
    efficiency = replace(IDEAL, step=0.5)
    timed = partial(compute_times, RESNET, machine(), batch=1, efficiency=efficiency)
    whole = timed().optimizer - 0.5
    assert timed(updated=0.25).optimizer == pytest.approx(0.25 * whole + 0.5)
    assert timed(updated=0.0).optimizer == 0.5


@pytest.mark.parametrize(
    ("precision", "fraction"),
    [("fp32", 0.8), ("tf32", 0.5), ("fp16", 0.4), ("bf16", 0.4), ("fp8", 0.25)],
)
def test_each_precision_has_its_fraction(precision, fraction):
    efficiency = replace(
        IDEAL, fractions={"gemm_fp32": 0.8, "gemm_tf32": 0.5, "gemm_half": 0.4, "gemm_fp8": 0.25}
    )
    model = one(kind="linear", forward_flop=10**9)
    times = compute_times(model, machine(), batch=1, precision=precision, efficiency=efficiency)
    assert times.forward[0] == pytest.approx(1e-3 / fraction)


def test_a_product_takes_its_ramp_once_for_each_step_of_a_recurrence():
    model = one(kind="linear", forward_flop=10**9, steps=3)
    assert compute_times(model, machine(), batch=1, efficiency=replace(IDEAL, ramp=0.25)).forward[
        0
    ] == pytest.approx(0.751)


def test_recurrences_run_in_fp32_where_tf32_is_asked_for():
    gpu = Accelerator("g", {"fp32": 1e12, "tf32": 8e12}, 1e30)
    alone, recurrent = (one(kind="linear", forward_flop=10**12, steps=steps) for steps in (1, 2))
    seconds = [
        compute_times(model, gpu, batch=1, precision="tf32", efficiency=IDEAL).forward[0]
        for model in (alone, recurrent)
    ]
    assert seconds == [pytest.approx(1 / 8), pytest.approx(1)]


@pytest.mark.parametrize(("generation", "seconds"), [("pascal", 1.0), ("volta", 0.5)])
def test_half_precision_without_matrix_units_saves_bytes_only(generation, seconds):
    gpu = Accelerator("g", {"fp32": 1e12, "fp16": 2e12}, 1e30, generation)
    times = compute_times(
        one(kind="conv", forward_flop=10**12), gpu, batch=1, precision="fp16", efficiency=IDEAL
    )
    assert times.forward[0] == pytest.approx(seconds)


@pytest.mark.parametrize(("power", "seconds"), [(70.0, 2.0), (250.0, 1.0), (None, 1.0)])
def test_a_small_board_does_not_keep_its_clock(power, seconds):
    efficiency = replace(IDEAL, throttle=0.5)
    times = compute_times(
        one(kind="conv", forward_flop=10**12), machine(power=power), batch=1, efficiency=efficiency
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
            model, machine(bandwidth=1e30), batch=1, efficiency=replace(IDEAL, launch=1e-3 * factor)
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
        model, machine(bandwidth=1e30), batch=1, efficiency=replace(IDEAL, launch=1e-3)
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
        efficiency=replace(IDEAL, launch=1.0),
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
    "efficiency", [IDEAL, replace(IDEAL, launch=1.0)], ids=["computing", "launching"]
)
def test_checkpointing_costs_one_more_forward(every, efficiency):
    kept, again = (
        compute_times(
            RESNET, V100, batch=8, recompute=n and Recompute(layers=n), efficiency=efficiency
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
        efficiency=IDEAL,
    )
    assert times.backward == pytest.approx([2, 20 + 11, 200, 2000 + 1100, 20000 + 10000])


# Measurements


def test_measured_layers_replace_the_roofline():
    measured = MeasuredTimes(
        batch_sizes=(4,), forward_s=((1.0,),), backward_s=((2.0,),), optimizer_s=(0.5,)
    )
    model = replace(one(kind="linear", parameters=(8,), forward_flop=1), measured=measured)
    times = compute_times(model, machine(), batch=8, accumulation=2, recompute=Recompute(layers=1))
    assert (times.forward.tolist(), times.backward.tolist(), times.optimizer) == ([2.0], [6.0], 0.5)
    assert times.passes == 2


# Laws


@pytest.mark.parametrize("name", ["vgg16", "gpt2"])
def test_large_batch_without_a_memory_wall_runs_at_the_large_fraction(name):
    model, batch, constant = build_model(name), 10**6, replace(fitted(), usual=1.0)
    times = compute_times(
        model, Accelerator("g", {"fp32": 1e13}, 1e30), batch=batch, efficiency=constant
    )
    busy = (
        sum(layer.forward_flop / constant.large(layer, "fp32") for layer in model.layers)
        * batch
        / 1e13
    )
    assert times.forward.sum() == pytest.approx(busy, rel=1e-3)


def test_small_batch_is_worth_less_per_sample():
    per_sample = [compute_times(RESNET, V100, batch=b).step / b for b in (1, 8, 64)]
    assert per_sample[0] > 3 * per_sample[2]
    assert sorted(per_sample, reverse=True) == per_sample


def test_compiled_graphs_are_never_slower():
    for precision in ("fp32", "fp16"):
        eager, graph = (
            compute_times(RESNET, V100, batch=64, precision=precision, execution=how).step
            for how in ("eager", "graph")
        )
        assert graph < eager


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
    precision=st.sampled_from(PRECISIONS),
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


def test_every_constant_has_a_value_and_an_error():
    content = constants()
    entries = [
        entry
        for part in ("fractions", "constants", "generations")
        for entry in content[part].values()
    ]
    entries += [entry for part in content["execution"].values() for entry in part.values()]
    assert all(entry["value"] > 0 and entry["error"] >= 0 and entry["unit"] for entry in entries)


@pytest.mark.parametrize(
    "generation", ["kepler", "pascal", "volta", "turing", "ampere", "ada", "hopper"]
)
def test_generations_have_constants_of_their_own(generation):
    assert fitted(generation).speed != fitted("other").speed == 1.0


# PyTorch rows of single_gpu.csv by NVIDIA and DLPerf: samples per second, and how far off they may
# be.
@pytest.mark.parametrize(
    ("model", "gpu", "batch", "precision", "rate", "within"),
    [
        ("resnet50", "v100-sxm2-16gb", 128, "fp32", 358, 0.2),
        ("resnet50", "v100-sxm2-16gb", 256, "fp16", 803, 0.2),
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
