"""What each codec loses.

Within its stated bound, nothing on average where it says so, and nothing for ever with feedback.
"""

import math

import numpy as np
import pytest

from dpsim.strategy.compression import (
    CastConfig,
    CompressedMean,
    Int8Config,
    OneBitConfig,
    PowerSgdConfig,
    QsgdConfig,
    RandomKConfig,
    TernaryConfig,
    ThresholdConfig,
    TopKConfig,
)
from dpsim.strategy.compression.packing import pack, unpack


def normal(elements, seed=0):
    return np.random.default_rng(seed).standard_normal(elements, dtype=np.float32)


def through(codec, vector, seed=0):
    return codec.decode(codec.encode(vector, np.random.default_rng(seed)), len(vector))


def square(vector):
    return float(np.sum(np.square(vector, dtype=np.float64)))


@pytest.mark.parametrize(("form", "relative"), [("fp16", 2**-11), ("bf16", 2**-8)])
def test_a_cast_rounds_to_the_nearest(form, relative):
    vector = normal(10_000)
    vector = vector[np.abs(vector) > 1e-3]
    assert (
        np.abs(through(CastConfig(kind="cast", format=form), vector) / vector - 1).max() <= relative
    )


def test_bf16_rounds_ties_to_even_and_keeps_what_is_not_finite():
    half_step = np.array([1 + 2**-8, 1 + 3 * 2**-8, np.inf, np.nan], dtype=np.float32)
    decoded = through(CastConfig(kind="cast", format="bf16"), half_step)
    assert decoded[:3].tolist() == [1.0, 1 + 2**-6, np.inf]
    assert np.isnan(decoded[3])


def test_bf16_has_the_range_of_float32_and_fp16_has_not():
    big = np.array([1e30], dtype=np.float32)
    assert through(CastConfig(kind="cast", format="bf16"), big)[0] == pytest.approx(1e30, rel=2**-8)
    assert np.isinf(through(CastConfig(kind="cast"), big)[0])


@pytest.mark.parametrize("form", ["fp16", "bf16"])
def test_casts_are_summed_in_their_format(form):
    codec, generator = CastConfig(kind="cast", format=form), np.random.default_rng(0)
    one, tiny = (codec.encode(np.array([x], dtype=np.float32), generator) for x in (1.0, 2.0**-12))
    assert codec.decode(codec.add(one, tiny), 1)[0] == 1.0


def test_int8_is_off_by_half_a_step_at_most():
    vector = normal(4096)
    steps = np.abs(vector).reshape(2, 2048).max(axis=1).repeat(2048) / 127
    assert (np.abs(through(Int8Config(kind="int8"), vector) - vector) <= steps * 0.5001).all()


def test_qsgd_is_off_by_a_level_at_most_and_within_its_variance():
    codec, vector = QsgdConfig(kind="qsgd", levels=8, bucket=512, norm="l2"), normal(512)
    norm = math.sqrt(square(vector))
    errors = [through(codec, vector, seed) - vector for seed in range(50)]
    assert max(np.abs(error).max() for error in errors) <= norm / 8 * 1.0001
    bound = min(512 / 8**2, math.sqrt(512) / 8) * norm**2
    assert np.mean([square(error) for error in errors]) <= bound


def test_ternary_sends_only_the_scale_zero_and_minus_the_scale():
    vector = normal(1000)
    assert set(np.unique(through(TernaryConfig(kind="ternary"), vector))) == {
        -np.abs(vector).max(),
        0.0,
        np.abs(vector).max(),
    }


@pytest.mark.parametrize(
    "codec",
    [
        QsgdConfig(kind="qsgd", levels=3, bucket=16),
        QsgdConfig(kind="qsgd", levels=3, bucket=16, norm="l2"),
        TernaryConfig(kind="ternary"),
        TernaryConfig(kind="ternary", bucket=8),
        RandomKConfig(kind="random-k", density=0.25, error_feedback=False),
    ],
    ids=repr,
)
def test_random_codecs_are_right_on_average(codec):
    vector, generator, draws = normal(40, seed=3), np.random.default_rng(4), 4000
    decoded = np.stack(
        [codec.decode(codec.encode(vector, generator), 40) for _ in range(draws)]
    ).astype(np.float64)
    standard_error = decoded.std(axis=0) / math.sqrt(draws)
    # Of 40 elements one may be four standard errors off once in 400 times: the seed is fixed.
    assert (np.abs(decoded.mean(axis=0) - vector) <= 4 * standard_error + 1e-6).all()


def test_a_one_bit_column_is_two_means():
    vector = np.array([1, 3, -2, -4, -6, 5, -3, -7], dtype=np.float32)
    assert through(OneBitConfig(kind="onebit", column=5), vector).tolist() == [
        2,
        2,
        -4,
        -4,
        -4,
        5,
        -5,
        -5,
    ]


def test_one_bit_is_nearer_than_zero():
    vector = normal(5000)
    error = square(through(OneBitConfig(kind="onebit"), vector) - vector)
    # For normal elements the means are +-sqrt(2 / pi): 1 - 2 / pi of the square is lost.
    assert error / square(vector) == pytest.approx(1 - 2 / math.pi, abs=0.03)


def test_top_k_keeps_the_largest():
    vector = np.array([0.1, -9, 3, 0, 7, -2, 1, 1], dtype=np.float32)
    assert through(TopKConfig(kind="top-k", density=3 / 8), vector).tolist() == [
        0,
        -9,
        3,
        0,
        7,
        0,
        0,
        0,
    ]


def test_top_k_keeps_its_share_of_any_vector():
    codec = TopKConfig(kind="top-k", density=0.1)
    for vector in (np.ones(1000, dtype=np.float32), normal(1000)):
        assert square(through(codec, vector)) >= 0.1 * square(vector) * (1 - 1e-6)


def test_random_k_draws_the_same_places_on_every_worker():
    codec = RandomKConfig(kind="random-k", density=0.2)
    vectors = np.stack([normal(100, seed) for seed in range(3)])
    mean = CompressedMean(codec, 3, 100, seed=0).mean(vectors)
    places = np.flatnonzero(mean)
    assert len(places) == 20
    assert np.allclose(mean[places], vectors.mean(axis=0)[places], atol=1e-6)


def test_payloads_from_other_places_do_not_add_up():
    codec = RandomKConfig(kind="random-k", density=0.2)
    first, second = (codec.encode(normal(100), np.random.default_rng(seed)) for seed in (0, 1))
    with pytest.raises(AssertionError, match="must draw the same random values"):
        codec.add(first, second)


def test_a_threshold_keeps_what_exceeds_it():
    codec = ThresholdConfig(kind="threshold", bound=1.0, unit="absolute", density=0.5)
    assert through(codec, np.array([1, -1.5, 0.5, 2], dtype=np.float32)).tolist() == [0, -1.5, 0, 2]


@pytest.mark.parametrize("bound", [1.0, 2.0, 2.5758])
def test_a_threshold_sends_what_is_expected_of_normal_elements(bound):
    codec, elements = ThresholdConfig(kind="threshold", bound=bound), 100_000
    sent = len(codec.encode(normal(elements), np.random.default_rng(0)).to_bytes()) / 8
    expected = codec.wire_bytes(elements) / 8
    assert abs(sent - expected) <= 4 * math.sqrt(expected)


def test_the_default_threshold_sends_one_in_a_hundred():
    assert ThresholdConfig(kind="threshold").wire_bytes(100_000) == 8 * 1000


def low_rank(rows, columns, rank, seed):
    generator = np.random.default_rng(seed)
    return (
        generator.standard_normal((rows, rank)) @ generator.standard_normal((rank, columns))
    ).astype(np.float32)


@pytest.mark.parametrize("workers", [1, 3])
def test_powersgd_gives_a_matrix_of_its_rank_back_exactly(workers):
    vectors = np.stack(
        [(seed + 1) * low_rank(30, 30, 2, seed=0).reshape(-1) for seed in range(workers)]
    )
    exchange = CompressedMean(PowerSgdConfig(kind="powersgd", rank=2), workers, 900, seed=0)
    assert np.allclose(exchange.mean(vectors), vectors.mean(axis=0), rtol=1e-4, atol=1e-4)


def test_powersgd_comes_nearer_when_it_starts_where_it_ended():
    codec, vector = PowerSgdConfig(kind="powersgd", rank=2, error_feedback=False), normal(900)[None]
    exchange = CompressedMean(codec, 1, 900, seed=0)
    errors = [square(exchange.mean(vector) - vector[0]) for _ in range(30)]
    singular = np.linalg.svd(vector.reshape(30, 30), compute_uv=False)
    assert errors[-1] < errors[0]
    assert errors[-1] == pytest.approx(
        square(singular[2:]), rel=0.02
    )  # the best that rank 2 can do


def test_powersgd_shapes_a_vector_nearly_square():
    codec = PowerSgdConfig(kind="powersgd", rank=1)
    assert [codec.shape(n) for n in (1, 7, 8, 9, 10, 1000)] == [
        (1, 1),
        (3, 3),
        (3, 3),
        (3, 3),
        (4, 3),
        (32, 32),
    ]
    assert codec.stages(1000) == (128, 128)


def test_powersgd_sends_small_vectors_as_they_are():
    codec, vectors = (
        PowerSgdConfig(kind="powersgd", rank=2),
        np.stack([normal(7, seed) for seed in range(3)]),
    )
    exchange = CompressedMean(codec, 3, 7, seed=0)
    assert codec.stages(7) == (28,)
    assert np.allclose(exchange.mean(vectors), vectors.mean(axis=0))
    assert not exchange.residuals.any()


# Codecs that shorten every vector by a fixed share at least (in expectation for random-k): the
# residual stays bounded.
CONTRACTIONS = [
    (TopKConfig(kind="top-k", density=0.05), 0.05),
    (OneBitConfig(kind="onebit", column=50), 1 / 50),
    (
        RandomKConfig(kind="random-k", density=0.25),
        0.25 / 2,
    ),  # half, since it holds only on average
    (CastConfig(kind="cast", format="bf16", error_feedback=True), 0.9),
    (Int8Config(kind="int8", error_feedback=True), 0.9),
]


@pytest.mark.parametrize(("codec", "kept"), CONTRACTIONS, ids=lambda c: repr(c)[:30])
def test_with_feedback_everything_arrives_but_a_bounded_residual(codec, kept):
    workers, elements, steps = 2, 200, 150
    exchange = CompressedMean(codec, workers, elements, seed=0)
    generator = np.random.default_rng(1)
    given, received = np.zeros(elements), np.zeros(elements)
    largest = 0.0
    for _ in range(steps):
        vectors = generator.standard_normal((workers, elements), dtype=np.float32)
        largest = max(largest, math.sqrt(max(square(vector) for vector in vectors)))
        given += vectors.mean(axis=0)
        received += exchange.mean(vectors)
        # |e'| <= sqrt(1 - kept) (|e| + |x|), so |e| never passes the geometric series' sum.
        left = math.sqrt(1 - kept)
        assert (
            math.sqrt(max(square(residual) for residual in exchange.residuals))
            <= left / (1 - left) * largest
        )
    # bf16 sums are rounded in flight as well, which nobody feeds back.
    rounding = 0.05 if isinstance(codec, CastConfig) else 1e-3
    assert np.allclose(
        received + exchange.residuals.mean(axis=0), given, atol=rounding * math.sqrt(steps)
    )


def test_without_feedback_what_is_lost_stays_lost():
    vector = np.array([[10, 1, 1, 1]], dtype=np.float32)
    lossy = CompressedMean(
        TopKConfig(kind="top-k", density=0.25, error_feedback=False), 1, 4, seed=0
    )
    whole = CompressedMean(TopKConfig(kind="top-k", density=0.25), 1, 4, seed=0)
    assert sum(lossy.mean(vector) for _ in range(100)).tolist() == [1000, 0, 0, 0]
    assert np.abs(sum(whole.mean(vector) for _ in range(100)) - 100 * vector[0]).max() <= 40


@pytest.mark.parametrize("bits", range(1, 9))
def test_packed_numbers_come_back(bits):
    numbers = np.random.default_rng(bits).integers(0, 2**bits, 37, dtype=np.uint8)
    packed = pack(numbers, bits)
    assert len(packed) == -(-37 * bits // 8)
    assert np.array_equal(unpack(packed, bits, 37), numbers)
