"""What checkpointing computes again and what it keeps, by blocks and by operators."""

from fractions import Fraction
from itertools import pairwise

import pytest

from dpsim.hardware import gpus
from dpsim.workload import (
    Accelerator,
    Layer,
    Model,
    Recompute,
    Setup,
    build_model,
    compute_times,
    footprint,
)

H100 = gpus()["h100-sxm"]
MACHINE = Accelerator(
    "h100",
    {name: peak.value for name, peak in H100.peak.items()},
    H100.memory_bandwidth.value,
    "hopper",
)


def layer(name, kind="linear", kept=1, flop=1):
    return Layer(name, kind, (1,), forward_flop=flop, backward_flop=2 * flop, activations=kept)


def small():
    """An embedding, two blocks that end in a product without a kept output and a sum, a head."""
    blocks = [
        part
        for block in range(2)
        for part in (
            layer(f"h.{block}.norm", "norm", 10, 0),
            layer(f"h.{block}.first", "linear", 40, 100),
            layer(f"h.{block}.gelu", "elementwise", 40, 0),
            layer(f"h.{block}.second", "linear", 0, 100),
            layer(f"h.{block}.add", "elementwise", 10, 0),
        )
    ]
    ends = (layer("wte", "embedding", 0, 0), layer("head", "linear", 7, 1000))
    return Model("small", (ends[0], *blocks, ends[1]), "sample")


def flop_again(found):
    return found.seconds(found.model.vector("forward_flop")).sum()


def test_a_block_is_computed_again_up_to_the_last_tensor_that_backward_needs():
    found = Recompute().of(small())
    again = [
        one.name for one, twice in zip(found.model.layers, found.recomputed, strict=True) if twice
    ]
    assert again == ["h.0.norm", "h.0.first", "h.0.gelu", "h.1.norm", "h.1.first", "h.1.gelu"]
    assert flop_again(found) == 200
    # Two outputs of blocks, the head's, and what one block computes again.
    assert found.held == 10 + 10 + 7 + (10 + 40 + 40)


def test_what_is_computed_again_stands_where_backward_first_needs_it():
    found = Recompute().of(small())
    moved = found.seconds(found.model.vector("forward_flop"))
    assert [int(each) for each in moved] == [0, 0, 0, 0, 0, 100, 0, 0, 0, 0, 100, 0]


def test_selective_keeps_every_other_product():
    found = Recompute(selective=True).of(small())
    # The first product is kept, and the second leads only to the block's output.
    assert flop_again(found) == 0
    assert found.held == 2 * (40 + 10) + 7 + (10 + 40)


@pytest.mark.parametrize("attention", ["flash", "unfused"])
def test_selective_keeps_fused_attention_and_computes_scores_again(attention):
    fused = attention == "flash"
    model = build_model("gpt2") if not fused else _fused("gpt2")
    found = Recompute(selective=True).of(model)
    of_attention = [
        bool(twice)
        for one, twice in zip(model.layers, found.recomputed, strict=True)
        if one.kind == "attention"
    ]
    assert of_attention == ([False] * 12 if fused else [True, False] * 12)


def _fused(name):
    from dpsim.workload import WorkloadConfig

    return WorkloadConfig(model=name, batch_per_gpu=1).build(flash=True)


@pytest.mark.parametrize("share", [Fraction(1, 3), Fraction(1, 2), Fraction(3, 4)])
def test_a_share_of_the_blocks_is_spread_evenly(share):
    model = build_model("llama2-7b")
    found = Recompute(share).of(model)
    chosen = [int(model.layers[first].name.split(".")[1]) for first, _ in found.segments]
    assert len(chosen) == int(32 * share)
    gaps = {later - one for one, later in pairwise(chosen)}
    assert max(gaps) - min(gaps) <= 1


def held_and_seconds(model, requested):
    """Bytes of activations and seconds of a step under each of the ``requested``."""
    held = [
        footprint(model, Setup(1, checkpointing=one is not None, recompute=one)).activations
        for one in requested
    ]
    seconds = [
        compute_times(model, MACHINE, batch=1, precision="bf16", recompute=one).step
        for one in requested
    ]
    return held, seconds


def test_more_checkpointing_holds_less_and_computes_longer():
    model = build_model("llama2-7b")
    requested = [
        None,
        Recompute(Fraction(1, 4)),
        Recompute(Fraction(1, 2)),
        Recompute(),
    ]
    held, seconds = held_and_seconds(model, requested)
    assert held == sorted(held, reverse=True)
    assert len(set(held)) == len(held)
    assert seconds == sorted(seconds)
    assert len(set(seconds)) == len(seconds)
    # Forward is a third of forward and backward; the output layer and what only leads to a
    # block's output do not run again.
    assert 1.2 < seconds[-1] / seconds[0] < 4 / 3


def test_selective_stands_between_none_and_full():
    model = build_model("llama3-8b")
    requested = [None, Recompute(selective=True), Recompute()]
    held, seconds = held_and_seconds(model, requested)
    assert held[0] > held[1] > held[2]
    assert seconds[0] < seconds[1] < seconds[2]


def test_a_network_without_blocks_is_computed_again_as_a_whole():
    model = build_model("alexnet")
    found = Recompute().of(model)
    assert flop_again(found) == pytest.approx(model.forward_flop)
