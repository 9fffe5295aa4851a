import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpsim.workload import Builder, Layer


def layers(builder):
    return builder.build("m", "sample").layers


def test_first_convolution_has_no_input_gradient():
    b = Builder((3, 8, 8))
    b.conv("first", 4, 3, stride=2, padding=1, bias=True)
    b.conv("second", 5, 1)
    flop, other = 2 * 4 * 4 * (4 * 3 * 3 * 3), 2 * 4 * 4 * (5 * 4)
    assert b.shape == (5, 4, 4)
    assert layers(b) == (
        Layer("first", "conv", (108, 4), 0, flop, flop, 192 + 64, 192 + 64, 64, shape=(16, 27, 4)),
        Layer(
            "second",
            "conv",
            (20,),
            0,
            other,
            2 * other,
            64 + 80,
            2 * (64 + 80),
            80,
            shape=(16, 4, 5),
        ),
    )


def product_of(builder):
    """Parameters, product and FLOP of the last layer, and the shape that leaves it."""
    last = layers(builder)[-1]
    return last.parameters, last.shape, last.forward_flop, builder.shape


def test_each_group_of_a_convolution_sees_its_share_of_the_channels():
    b = Builder((8, 4, 4))
    b.conv("grouped", 16, 3, padding=1, groups=4)
    assert product_of(b) == ((16 * 2 * 9,), (16, 18, 16), 2 * 16 * 18 * 16, (16, 4, 4))
    b.conv("depthwise", 16, 3, padding=1, groups=16)
    assert product_of(b) == ((16 * 9,), (16, 9, 16), 2 * 16 * 9 * 16, (16, 4, 4))


def test_convolutions_over_time_and_over_volumes():
    b = Builder((2, 10))
    b.conv("time", 4, 3, dilation=2)
    assert product_of(b) == ((4 * 2 * 3,), (6, 6, 4), 2 * 6 * 6 * 4, (4, 6))
    b = Builder((2, 4, 4, 4))
    b.conv("volume", 4, 3, 2, 1)
    assert product_of(b) == ((4 * 2 * 27,), (8, 54, 4), 2 * 8 * 54 * 4, (4, 2, 2, 2))


def test_a_transposed_convolution_spreads_each_place():
    b = Builder((4, 3, 3))
    b.conv_transpose("up", 2, 2, 2, bias=True)
    assert product_of(b) == ((4 * 2 * 4, 2), (9, 4, 8), 2 * 9 * 4 * 8, (2, 6, 6))


def test_a_shared_convolution_borrows_its_weights():
    b = Builder((4, 3, 3))
    b.conv("again", 2, 1, bias=True, tied=True)
    (layer,) = layers(b)
    assert (layer.parameters, layer.borrowed, layer.forward_flop) == ((), 8, 2 * 9 * 8)


def test_squeezing_scales_each_channel():
    b = Builder((6, 5, 5))
    b.squeeze_excite("se", 2)
    assert b.shape == (6, 5, 5)
    assert [layer.parameters for layer in layers(b) if layer.parameters] == [(12, 2), (12, 6)]


def test_boxes_are_cut_out_one_below_the_other():
    b = Builder((256, 1, 1))
    b.roi_align("align", 10, 7)
    assert b.shape == (256, 70, 7)


def test_pairs_of_vectors_are_multiplied_once():
    b = Builder((4, 8))
    b.pair_products("dot")
    assert (b.shape, layers(b)[0].forward_flop) == ((6,), 2 * 4 * 4 * 8)


def test_linear_after_an_embedding_has_an_input_gradient():
    b = Builder((7,))
    b.embedding("table", 100, 8)
    b.linear("head", 100, tied=True, kept=False)
    table, head = layers(b)
    assert table == Layer(
        "table", "embedding", (800,), forward_traffic=2 * 56, backward_traffic=2 * 56
    )
    assert head == Layer(
        "head",
        "linear",
        (),
        800,
        2 * 7 * 800,
        4 * 7 * 800,
        56 + 700,
        2 * (56 + 700),
        0,
        shape=(7, 8, 100),
    )


def test_attention_is_four_flop_per_pair_of_tokens_and_width():
    b = Builder((10,))
    b.embedding("table", 3, 12)
    b.attention("a", heads=2)
    model = b.build("m", "10 tokens")
    assert model.forward_flop == 4 * 10**2 * 12
    assert model.backward_flop == 2 * model.forward_flop
    assert model.activations == 2 * 2 * 10**2 + 10 * 12


def test_branches_join_along_the_channels():
    b = Builder((3, 6, 6))
    b.concatenate("cat", lambda: b.conv("a", 2, 1), lambda: b.pool("b", 3, padding=1))
    assert b.shape == (5, 6, 6)
    assert [layer.name for layer in layers(b)] == ["a", "b", "cat"]


@given(
    side=st.integers(1, 64),
    kernel=st.integers(1, 7),
    stride=st.integers(1, 4),
    padding=st.integers(0, 3),
)
def test_window_counts_the_positions_it_can_take(side, kernel, stride, padding):
    if side + 2 * padding < kernel:
        return
    b = Builder((1, side, side))
    b.pool("p", kernel, stride, padding)
    assert b.shape[1] == len(range(0, side + 2 * padding - kernel + 1, stride))


@pytest.mark.parametrize(("side", "out"), [(5, 2), (6, 3), (7, 3)])
def test_ceil_keeps_the_partial_window(side, out):
    b = Builder((1, side, side))
    b.pool("p", 3, 2, ceil=True)
    assert b.shape == (1, out, out)


def test_fused_attention_keeps_no_scores_and_computes_them_again():
    b = Builder((10,))
    b.embedding("table", 3, 12)
    b.fused_attention("a", heads=4, groups=2)
    (_, layer) = layers(b)
    assert (layer.forward_flop, layer.backward_flop) == (4 * 10**2 * 12, 10 * 10**2 * 12)
    assert layer.forward_traffic == 2 * 120 + 2 * 60
    assert layer.activations == 120 + 4 * 10


def test_attention_to_a_memory_has_more_keys():
    b = Builder((10, 12))
    b.attention("a", heads=2, keys=30, relative=True)
    assert b.build("m", "s").forward_flop == 3 * 2 * 10 * 30 * 12


@pytest.mark.parametrize(("gates", "kept"), [(4, 2), (3, 1)])
def test_a_recurrent_layer_is_one_product_and_a_chain(gates, kept):
    b = Builder((7, 5))
    b.embedding("table", 2, 5)
    b.recurrent("l", 6, gates=gates)
    (_, inputs, states) = layers(b)
    assert b.shape == (7, 6)
    assert (inputs.parameters, inputs.forward_flop, inputs.steps) == (
        (gates * 30,),
        2 * 7 * gates * 30,
        1,
    )
    assert (states.parameters, states.forward_flop, states.steps) == (
        (gates * 36, gates * 6, gates * 6),
        2 * 7 * gates * 36,
        7,
    )
    assert states.activations == kept * 7 * 6


@pytest.mark.parametrize(("joined", "width"), [(True, 12), (False, 6)])
def test_both_ways_are_joined_or_summed(joined, width):
    b = Builder((7, 5))
    b.bidirectional("l", 6, concatenated=joined)
    assert b.shape == (7, width)
    assert [layer.name for layer in layers(b)][:4] == [
        "l.ih",
        "l.hh",
        "l.ih_reverse",
        "l.hh_reverse",
    ]


def test_a_tied_layer_may_have_a_bias_of_its_own():
    b = Builder((7, 5))
    b.linear("decoder", 9, tied=True, bias=True)
    assert (layers(b)[0].parameters, layers(b)[0].borrowed) == ((9,), 45)


def test_upsampling_repeats_pixels():
    b = Builder((2, 3, 4))
    b.upsample("up", 2)
    assert b.shape == (2, 6, 8)
