"""The law of transformers: products by their shapes, attention, traffic, watts."""

from dataclasses import replace

import numpy as np
import pytest

from dpsim.workload import (
    Accelerator,
    Builder,
    Model,
    Shapes,
    TransformerEfficiency,
    build_model,
    compute_times,
    standing_for,
    transformer_efficiency,
)

PLAIN = TransformerEfficiency(
    products=1.0,
    attention=1.0,
    memory=1.0,
    wire=0.0,
    watts=1e-12,
    inner_ramp=0.0,
    head_ramp=0.0,
    fp8=1.0,
    clock_power=0.5,
    copies=1.0,
    elementwise=1.0,
    loss=1.0,
    launch=0.0,
    measured_on="ampere",
)
FAST_MEMORY = 1e30


def one_product(tokens: int = 4, inner: int = 8, width: int = 16) -> Model:
    b = Builder((tokens,))
    b.embedding("table", 100, inner)
    b.linear("layers.0.up", width, bias=False)
    return b.build("m", "tokens")


def seconds(
    model: Model, batch: int = 1, *, fp8: bool = False, peak: float = 1.0, **changed: float
):
    constants = replace(PLAIN, **changed)
    times = Shapes.of(model).pass_times(constants, batch, fp8, peak, FAST_MEMORY)
    return times.forward, times.backward


def test_a_product_states_its_rows_inner_terms_and_columns():
    assert one_product().layers[1].shape == (4, 8, 16)


def test_a_ramp_lengthens_each_products_inner_dimension():
    forward, backward = seconds(one_product(), batch=3, inner_ramp=2.0)
    rows, inner, width = 12, 8, 16
    assert forward[1] == 2 * rows * width * (inner + 2)
    assert backward[1] == 2 * rows * inner * (width + 2) + 2 * inner * width * (rows + 2)


@pytest.mark.parametrize("tokens", [1, 8, 64, 512])
def test_efficiency_grows_with_tokens_and_width(tokens):
    def efficiency(rows: int, width: int) -> float:
        forward, backward = seconds(one_product(rows, width, width), inner_ramp=100.0)
        return 6 * rows * width**2 / float(forward[1] + backward[1])

    assert efficiency(tokens, 64) < efficiency(2 * tokens, 64) < efficiency(2 * tokens, 128) < 1


def test_attention_has_a_share_of_peak_and_a_ramp_of_its_own():
    b = Builder((4, 16))
    b.fused_attention("layers.0.attn", heads=2)
    forward, backward = seconds(b.build("m", ""), attention=0.5, head_ramp=4.0)
    assert forward[0] == 4 * 4**2 * 16 * (1 + 4 / 8) / 0.5
    assert backward[0] == 10 / 4 * forward[0]


def test_fp8_quickens_linear_layers_of_blocks_alone():
    b = Builder((4,))
    b.embedding("table", 100, 8)
    b.linear("layers.0.up", 8, bias=False)
    b.fused_attention("layers.0.attn", heads=2)
    b.linear("head", 100, tied=True)
    model = b.build("m", "")
    bf16 = Shapes.of(model).pass_times(replace(PLAIN, fp8=1.5), 1, False, 1.0, FAST_MEMORY).forward
    fp8 = Shapes.of(model).pass_times(replace(PLAIN, fp8=1.5), 1, True, 1.0, FAST_MEMORY).forward
    assert (bf16 / fp8)[1:] == pytest.approx([1.5, 1.0, 1.0])


def test_the_loss_and_elementwise_layers_move_their_own_multiples():
    b = Builder((4,))
    b.embedding("table", 100, 8)
    b.activation("layers.0.gelu")
    b.cross_entropy("loss")
    shapes = Shapes.of(b.build("m", ""))
    times = shapes.pass_times(replace(PLAIN, elementwise=3.0, loss=5.0), 1, False, 1.0, 2.0)
    assert times.forward[1:].tolist() == [3 * 2 * 32, 5 * 2 * 32]


def test_a_board_with_fewer_watts_for_its_peak_keeps_less_of_its_clock():
    assert PLAIN.clock(1.0, 1e12) == 1.0
    assert PLAIN.clock(0.25, 1e12) == 0.5
    assert PLAIN.clock(4.0, 1e12) == PLAIN.clock(None, 1e12) == 1.0


def test_generations_that_were_not_measured_say_which_stands_for_them():
    assert standing_for("hopper") == "hopper"
    blackwell = transformer_efficiency("blackwell")
    assert blackwell is not None
    assert blackwell.measured_on == "hopper"
    assert transformer_efficiency("tpu") is None


def h100(precision: str = "bf16", **more):
    gpu = Accelerator("h", {"bf16": 989e12, "fp8": 1979e12, "fp32": 67e12}, 3.35e12, "hopper", 700)
    model = replace(build_model("llama2-7b", 4096))
    return compute_times(model, gpu, batch=2, precision=precision, optimizer="adam", **more)


def test_fp8_gives_what_is_measured_not_twice():
    assert 1.15 < h100().step / h100("fp8").step < 1.45


def test_compiled_kernels_save_part_of_the_traffic_outside_products():
    assert 1.05 < h100().step / h100(execution="compile").step < 1.30


def test_kernels_of_2022_move_more():
    assert h100(kernels="2022").step > 1.1 * h100().step


def test_products_are_faster_on_cuda_12():
    before, after = h100(kernels="2023"), h100(kernels="2023-cuda12")
    assert 1.03 < before.step / after.step < 1.08


def test_every_constant_counts():
    base = h100(transformer=transformer_efficiency("hopper"))
    for name in (
        "products",
        "attention",
        "memory",
        "inner_ramp",
        "head_ramp",
        "elementwise",
        "loss",
    ):
        law = transformer_efficiency("hopper")
        assert law is not None
        changed = h100(transformer=replace(law, **{name: getattr(law, name) * 0.9}))
        assert not np.isclose(changed.step, base.step, rtol=1e-6), name
