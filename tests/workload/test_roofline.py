import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpsim.errors import DpsimError
from dpsim.workload import FITTED, MODELS, PRECISIONS, Accelerator, Efficiency, Layer, Model, build_model, compute_times

V100 = Accelerator("v100", {"fp32": 15.7e12, "fp16": 125e12}, 900e9)
IDEAL = Efficiency(scalar={}, tensor={}, ramp=0.0, memory=1.0, launch=0.0)
RESNET = build_model("resnet50")


def one(**amounts):
    return Model("one", (Layer("layer", **amounts),), "sample")


def machine(peak=1e12, bandwidth=1e9):
    return Accelerator("machine", dict.fromkeys(PRECISIONS, peak), bandwidth)


def test_bound_by_arithmetic():
    model = one(kind="linear", forward_flop=10**9, backward_flop=2 * 10**9, forward_traffic=1)
    times = compute_times(model, machine(), batch=4, efficiency=IDEAL)
    assert (times.forward.tolist(), times.backward.tolist(), times.optimizer) == ([4e-3], [8e-3], 0.0)


def test_bound_by_memory_at_the_width_of_the_precision():
    model = one(kind="linear", parameters=(700, 300), forward_flop=1, backward_flop=2, forward_traffic=1000, backward_traffic=2000)
    for precision, width in (("fp32", 4), ("tf32", 4), ("fp16", 2), ("bf16", 2)):
        times = compute_times(model, machine(), batch=5, precision=precision, efficiency=IDEAL)
        assert times.forward.tolist() == [pytest.approx(width * (5 * 1000 + 1000) / 1e9)]
        # Weights are read for the gradient by the input, and the gradient by the weights is written.
        assert times.backward.tolist() == [pytest.approx(width * (5 * 2000 + 2 * 1000) / 1e9)]


def test_embedding_reads_rows_and_writes_the_whole_gradient():
    model = one(kind="embedding", parameters=(10**6,), forward_traffic=20, backward_traffic=30)
    times = compute_times(model, machine(), batch=2, efficiency=IDEAL)
    assert times.forward.tolist() == [pytest.approx(4 * 40 / 1e9)]
    assert times.backward.tolist() == [pytest.approx(4 * (60 + 10**6) / 1e9)]


@pytest.mark.parametrize(("optimizer", "nbytes"), [("sgd", 12), ("momentum", 20), ("adam", 28)])
def test_update_moves_weights_gradient_and_state(optimizer, nbytes):
    times = compute_times(RESNET, machine(), batch=1, optimizer=optimizer, efficiency=IDEAL)
    assert times.optimizer == pytest.approx(nbytes * 25_557_032 / 1e9)


def test_half_of_the_fraction_is_reached_after_the_ramp():
    efficiency = Efficiency(scalar={"conv": 0.8}, tensor={"conv": 0.4}, ramp=1e-3, memory=1.0, launch=0.0)
    model = one(kind="conv", forward_flop=10**9)  # 1 ms at peak
    assert compute_times(model, machine(), batch=1, efficiency=efficiency).forward[0] == pytest.approx(1e-3 / 0.4)
    assert compute_times(model, machine(), batch=1, precision="fp16", efficiency=efficiency).forward[0] == pytest.approx(1e-3 / 0.2)


def test_launches_per_kernel():
    efficiency = Efficiency(scalar={}, tensor={}, ramp=0.0, memory=1.0, launch=1.0)
    layers = (
        Layer("first", "conv", (8,), forward_flop=1, backward_flop=1),
        Layer("second", "conv", (8,), forward_flop=1, backward_flop=2),
        Layer("relu", "elementwise", forward_traffic=2, backward_traffic=3),
        Layer("constant", "elementwise", forward_traffic=2),
    )
    times = compute_times(Model("m", layers, "sample"), machine(1e30, 1e30), batch=1, efficiency=efficiency)
    assert (times.forward.tolist(), times.backward.tolist(), times.optimizer) == ([1, 1, 1, 1], [1, 2, 1, 0], 1)
    assert times.step == 9


@pytest.mark.parametrize("name", ["vgg16", "gpt2"])
def test_large_batch_without_a_memory_wall_runs_at_the_large_fraction(name):
    model, batch = build_model(name), 10**6
    times = compute_times(model, Accelerator("g", {"fp32": 1e13}, 1e30), batch=batch)
    busy = sum(layer.forward_flop / FITTED.scalar[layer.kind] for layer in model.layers if layer.forward_flop) * batch / 1e13
    assert times.forward.sum() == pytest.approx(busy, rel=1e-3)


def test_small_batch_is_worth_less_per_sample():
    per_sample = [compute_times(RESNET, V100, batch=b).step / b for b in (1, 8, 64)]
    assert per_sample[0] > 3 * per_sample[2]
    assert sorted(per_sample, reverse=True) == per_sample


def test_resnet50_on_a_v100_as_pytorch_has_it():
    # NVIDIA's and DLPerf's PyTorch rows of single_gpu.csv: 349-367 images/s in fp32 at 128, 803 in mixed precision at 256.
    assert 128 / compute_times(RESNET, V100, batch=128).step == pytest.approx(358, rel=0.1)
    assert 256 / compute_times(RESNET, V100, batch=256, precision="fp16").step == pytest.approx(803, rel=0.1)


@pytest.mark.parametrize("name", MODELS)
def test_vectors_are_in_layer_order_and_positive(name):
    model = build_model(name)
    times = compute_times(model, V100, batch=2, precision="fp16", optimizer="adam")
    assert times.forward.shape == times.backward.shape == (len(model.layers),)
    assert np.all(times.forward > 0)
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
def test_no_layer_is_slower_with_more_hardware_or_faster_with_more_samples(peak, bandwidth, batch, factor, precision):
    def passes(gpu, samples):
        times = compute_times(RESNET, gpu, batch=samples, precision=precision)
        return np.concatenate([times.forward, times.backward, [times.optimizer]])

    base = passes(machine(peak, bandwidth), batch)
    slack = 1 + 1e-12
    assert np.all(passes(machine(peak * factor, bandwidth), batch) <= base * slack)
    assert np.all(passes(machine(peak, bandwidth * factor), batch) <= base * slack)
    assert np.all(passes(machine(peak, bandwidth), batch + 1) * slack >= base)


def test_missing_precision_says_what_there_is():
    with pytest.raises(DpsimError, match=r"must be a precision that the v100 has \(fp32, fp16\), but got 'bf16'"):
        compute_times(RESNET, V100, batch=1, precision="bf16")


@pytest.mark.parametrize("batch", [0, -3])
def test_batch_below_one(batch):
    with pytest.raises(DpsimError, match=f"batch must be at least 1, but got {batch}"):
        compute_times(RESNET, V100, batch=batch)
