"""Codecs in torch against those in numpy."""

import numpy as np
import pytest
from pydantic import TypeAdapter

from dpsim.base.errors import DpsimError
from dpsim.base.kinds import kinds_of
from dpsim.strategy.compression import CompressionConfig

pytest.importorskip("torch")

import torch

from validate.microbench import torch_codecs

pytestmark = pytest.mark.torch
SIZES = [1, 7, 8, 1000, 12345]
FIELDS = [
    *({"kind": kind} for kind in kinds_of(CompressionConfig)),
    {"kind": "cast", "format": "bf16"},
    {"kind": "int8", "bucket": 7},
    {"kind": "onebit", "column": 5},
    {"kind": "top-k", "density": 0.3},
    {"kind": "qsgd", "levels": 1, "bucket": 3, "norm": "l2"},
    {"kind": "ternary", "bucket": 100},
    {"kind": "random-k", "density": 0.3},
    {"kind": "random-k", "error_feedback": False},
    {"kind": "powersgd", "rank": 3},
]


def made(fields):
    return TypeAdapter(CompressionConfig).validate_python(fields)


def draws(fields):
    """Whether the payload of a vector is another one for another random stream."""
    vector = np.random.default_rng(0).standard_normal(1000, dtype=np.float32)
    one, other = (made(fields).encode(vector, np.random.default_rng(seed)) for seed in (1, 2))
    decoded = [made(fields).decode(each, len(vector)) for each in (one, other)]
    return not np.array_equal(*decoded)


WITH_CHANCE = [fields for fields in FIELDS if draws(fields)]
WITHOUT_CHANCE = [fields for fields in FIELDS if not draws(fields)]


def both(fields, elements, seed=0):
    """Vector, codec, and the payloads of numpy and of torch."""
    codec, vector = (
        made(fields),
        np.random.default_rng(seed).standard_normal(elements, dtype=np.float32),
    )
    ours = codec.encode(vector, np.random.default_rng(1))
    return (
        vector,
        codec,
        ours,
        torch_codecs.encode(codec, torch.from_numpy(vector), torch.Generator().manual_seed(1)),
    )


@pytest.mark.parametrize("elements", SIZES)
@pytest.mark.parametrize("fields", FIELDS, ids=str)
def test_payloads_are_as_long_as_numpy_s(fields, elements):
    _, _, ours, theirs = both(fields, elements)
    assert theirs.nbytes == len(ours.to_bytes())


@pytest.mark.parametrize("elements", SIZES)
@pytest.mark.parametrize("fields", WITHOUT_CHANCE, ids=str)
def test_without_chance_both_stand_for_the_same_vector(fields, elements):
    _, codec, ours, theirs = both(fields, elements)
    decoded = torch_codecs.decode(codec, theirs, elements).numpy()
    np.testing.assert_allclose(decoded, codec.decode(ours, elements), rtol=2e-6, atol=1e-7)


@pytest.mark.parametrize(
    "fields", [each for each in WITH_CHANCE if each["kind"] in ("qsgd", "ternary")], ids=str
)
def test_what_is_rounded_at_random_is_right_on_average(fields):
    vector, codec = torch.tensor([0.3, -0.9, 0.0, 0.55, -0.05]), made(fields)
    generator = torch.Generator().manual_seed(2)
    encoded = [torch_codecs.encode(codec, vector, generator) for _ in range(1000)]
    mean = torch.stack([torch_codecs.decode(codec, each, len(vector)) for each in encoded]).mean(
        dim=0
    )
    assert torch.allclose(mean, vector, atol=0.05)  # 3 standard errors of the coarsest


def test_operators_are_those_of_kinds_that_there_are():
    assert set(torch_codecs._CODECS) <= set(kinds_of(CompressionConfig))


@pytest.mark.parametrize("elements", SIZES)
@pytest.mark.parametrize("fields", WITHOUT_CHANCE, ids=str)
def test_a_codec_without_operators_is_encoded_by_numpy(fields, elements, monkeypatch):
    monkeypatch.setattr(torch_codecs, "_CODECS", {})
    _, codec, ours, theirs = both(fields, elements)
    assert not torch_codecs.has_operators(codec)
    assert theirs.nbytes == len(ours.to_bytes())
    decoded = torch_codecs.decode(codec, theirs, elements).numpy()
    np.testing.assert_array_equal(decoded, codec.decode(ours, elements))


def test_without_operators_payloads_add_up_on_their_way(monkeypatch):
    """numpy holds bfloat16 as whole numbers, whose sum means nothing."""
    monkeypatch.setattr(torch_codecs, "_CODECS", {})
    codec, vector = made({"kind": "cast", "format": "bf16"}), torch.tensor([0.5, -3.0, 1.0])
    encoded = torch_codecs.encode(codec, vector, torch.Generator())
    twice = torch_codecs.TorchEncoded((encoded.parts[0] + encoded.parts[0],))
    assert torch_codecs.decode(codec, twice, 3).tolist() == [1.0, -6.0, 2.0]


def test_a_chained_codec_without_operators_is_refused(monkeypatch):
    monkeypatch.setattr(torch_codecs, "_CODECS", {})
    with pytest.raises(DpsimError, match="must be a codec with operators in torch"):
        torch_codecs.encode(made({"kind": "powersgd"}), torch.ones(9), torch.Generator())


def test_random_k_keeps_values_at_places_that_all_know():
    vector, codec, _, encoded = both({"kind": "random-k", "density": 0.3}, 1000)
    decoded = torch_codecs.decode(codec, encoded, 1000).numpy()
    assert np.count_nonzero(decoded) == 300
    np.testing.assert_array_equal(decoded[decoded != 0], vector[decoded != 0])


def test_powersgd_finds_a_matrix_of_its_rank():
    codec = made({"kind": "powersgd", "rank": 2})
    rows, columns = codec.shape(900)
    matrix = torch.outer(torch.arange(rows) + 1.0, torch.arange(columns) - 4.0) + torch.outer(
        torch.ones(rows), torch.ones(columns)
    )
    encoded = torch_codecs.encode(codec, matrix.reshape(-1), torch.Generator().manual_seed(0))
    assert torch.allclose(
        torch_codecs.decode(codec, encoded, 900), matrix.reshape(-1), rtol=1e-3, atol=1e-2
    )


@pytest.mark.parametrize("bits", [1, 2, 4, 7])
def test_packed_numbers_are_those_of_numpy(bits):
    from dpsim.strategy.compression.packing import pack

    numbers = np.random.default_rng(bits).integers(0, 2**bits, 101).astype(np.uint8)
    packed = torch_codecs._pack(torch.from_numpy(numbers.astype(np.int32)), bits)
    np.testing.assert_array_equal(packed.numpy(), pack(numbers, bits))
    np.testing.assert_array_equal(torch_codecs._unpack(packed, bits, 101).numpy(), numbers)


def test_of_a_chained_codec_the_mean_is_decomposed_and_no_sum_of_factors():
    """Two workers whose matrices of rank 2 differ by a factor: their mean comes through whole."""
    codec = TypeAdapter(CompressionConfig).validate_python({"kind": "powersgd", "rank": 2})
    draw = torch.Generator().manual_seed(1)
    rows, columns = codec.shape(4_096)
    matrix = torch.randn(rows, 2, generator=draw) @ torch.randn(2, columns, generator=draw)
    vector = matrix.reshape(-1)[:4_096]
    # The other worker's part is three times this one's, so the mean of both is twice this one's.
    encoded = torch_codecs.encode(
        codec, vector, torch.Generator().manual_seed(0), lambda part: 2 * part
    )
    assert torch.allclose(
        torch_codecs.decode(codec, encoded, 4_096), 2 * vector, rtol=1e-3, atol=1e-3
    )
