"""What every codec promises.

Its size is its real encoding's, its cost that of its passes, its name is enough to run it.
"""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import TypeAdapter

from dpsim.base.kinds import kinds_of
from dpsim.strategy.compression import Codec, CompressedMean, CompressionConfig

KINDS = kinds_of(CompressionConfig)
VARIANTS = [
    *({"kind": kind} for kind in KINDS),
    {"kind": "cast", "format": "bf16"},
    {"kind": "int8", "bucket": 7},
    {"kind": "qsgd", "levels": 1, "bucket": 3, "norm": "l2"},
    {"kind": "qsgd", "levels": 127},
    {"kind": "ternary", "bucket": 100},
    {"kind": "onebit", "column": 5},
    {"kind": "top-k", "density": 1.0},
    {"kind": "random-k", "density": 0.3, "error_feedback": False},
    {"kind": "threshold", "bound": 0.0, "density": 1.0},
    {"kind": "powersgd", "rank": 7},
]
SIZES = [1, 7, 8, 1000, 12345]


def made(**fields: object) -> Codec:
    return TypeAdapter(CompressionConfig).validate_python(fields)


def normal(elements: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(elements, dtype=np.float32)


every_codec = pytest.mark.parametrize(
    "codec", [made(**v) for v in VARIANTS], ids=lambda c: repr(c)[:60]
)
fixed_size = pytest.mark.parametrize(
    "codec", [made(**v) for v in VARIANTS if v != {"kind": "threshold"}], ids=lambda c: repr(c)[:60]
)


@fixed_size
def test_the_stated_size_is_that_of_the_real_encoding(codec):
    for elements in SIZES:
        encoded = codec.encode(normal(elements), np.random.default_rng(1))
        assert codec.wire_bytes(elements) == len(encoded.to_bytes()), elements


@every_codec
def test_collectives_carry_the_whole_payload(codec):
    for elements in SIZES:
        assert sum(codec.stages(elements)) == codec.wire_bytes(elements), elements


@every_codec
@given(
    elements=st.integers(1, 300),
    scale=st.sampled_from([0.0, 1e-6, 1.0, 1e4]),
    seed=st.integers(0, 99),
)
@settings(max_examples=15, deadline=None)
def test_decoding_gives_as_many_finite_elements(codec, elements, scale, seed):
    vector = normal(elements, seed) * np.float32(scale)
    decoded = codec.decode(codec.encode(vector, np.random.default_rng(seed)), elements)
    assert decoded.shape == (elements,)
    assert decoded.dtype == np.float32
    assert np.isfinite(decoded).all()
    assert scale or not decoded.any()


@every_codec
def test_all_workers_get_the_mean_of_what_was_sent(codec):
    vectors = np.stack([normal(500, seed) for seed in range(4)])
    done = codec.exchange(
        vectors,
        [np.random.default_rng(0 if codec.common_randomness else seed) for seed in range(4)],
    )
    rounding = (
        0.03 if codec.kind == "cast" else 1e-5
    )  # sums in half precision are rounded in flight
    assert np.allclose(done.mean, done.locals.mean(axis=0), atol=rounding)
    assert all(
        len(encoded.to_bytes()) <= codec.wire_bytes(500) or codec.kind == "threshold"
        for encoded in done.encoded
    )


@every_codec
def test_the_residual_is_what_did_not_arrive(codec):
    vectors = np.stack([normal(500, seed) for seed in range(4)])
    exchange = CompressedMean(codec, workers=4, elements=500, seed=5)
    mean = exchange.mean(vectors)
    if codec.feeds_back:
        assert np.allclose(mean + exchange.residuals.mean(axis=0), vectors.mean(axis=0), atol=1e-5)
    else:
        assert not exchange.residuals.any()


@every_codec
def test_one_seed_gives_one_result(codec):
    vectors = np.stack([normal(300, seed) for seed in range(3)])
    first, second = (CompressedMean(codec, 3, 300, seed=9).mean(vectors) for _ in range(2))
    assert np.array_equal(first, second)


@every_codec
def test_time_is_traffic_over_bandwidth(codec):
    slow = (
        codec.encode_seconds(10**6, memory_bandwidth=1e9, peak=1e30),
        codec.decode_seconds(10**6, memory_bandwidth=1e9, peak=1e30),
    )
    assert slow == (codec.encode_traffic(10**6) / 1e9, codec.decode_traffic(10**6) / 1e9)
    again = codec.decode_seconds(10**6, memory_bandwidth=1e9, peak=1e30, payloads=8)
    assert (again == slow[1]) == (codec.sums_in_flight)


@every_codec
def test_encoding_touches_at_least_what_it_sends(codec):
    if codec.kind != "none":
        assert codec.encode_traffic(10**6) >= codec.wire_bytes(10**6)
        assert codec.decode_traffic(10**6) >= codec.wire_bytes(10**6)


@pytest.mark.parametrize(
    ("fields", "encode_bytes", "decode_bytes"),
    [
        ({"kind": "none"}, 0, 0),
        ({"kind": "cast"}, 6000, 6000),  # one pass and half a pass
        ({"kind": "cast", "error_feedback": True}, 14000, 6000),  # the residual in and out
        ({"kind": "int8", "bucket": 1000}, 5004, 5004),
        ({"kind": "qsgd", "bucket": 1000}, 4504, 4504),
        ({"kind": "ternary"}, 8254, 4254),  # a pass for the scale
        ({"kind": "onebit", "column": 1000}, 12133, 4133),
        ({"kind": "top-k"}, 36080, 4720),  # 9 passes and 10 x 8; 10 additions at 64 bytes
        ({"kind": "random-k"}, 12680, 4360),
        ({"kind": "threshold"}, 20080, 4720),
    ],
)
def test_traffic_of_a_thousand_elements(fields, encode_bytes, decode_bytes):
    codec = made(**fields)
    assert (codec.encode_traffic(1000), codec.decode_traffic(1000)) == (encode_bytes, decode_bytes)


def test_gathered_payloads_are_each_read_and_the_mean_written_once():
    codec = made(kind="int8", bucket=1000)
    assert codec.decode_traffic(1000, payloads=8) == 8 * 1004 + 4000


def test_low_rank_products_may_take_longer_than_memory():
    codec = made(kind="powersgd", rank=100, error_feedback=False)
    flop = 4 * 100 * 10**6 + 2 * 1000 * 100**2
    assert codec.encode_seconds(10**6, memory_bandwidth=1e30, peak=1e12) == pytest.approx(
        flop / 1e12
    )


@pytest.mark.parametrize(
    "fields",
    [{"kind": "top-k", "density": 0}, {"kind": "qsgd", "levels": 128}, {"kind": "none", "bits": 3}],
)
def test_what_means_nothing_is_refused(fields):
    with pytest.raises(ValueError, match=r"validation error"):
        made(**fields)


def test_an_absolute_bound_needs_a_density():
    with pytest.raises(ValueError, match="density must be given with an absolute bound"):
        made(kind="threshold", bound=0.1, unit="absolute")
