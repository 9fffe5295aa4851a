"""Codecs over sizes: seconds to encode and to decode, by torch on the device.

On a CPU also by numpy, as everywhere for a codec without operators in torch.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import product
from typing import Any

import numpy as np
import torch
from pydantic import TypeAdapter

from dpsim.base.kinds import kinds_of
from dpsim.strategy.compression import CompressionConfig
from validate.microbench import torch_codecs
from validate.microbench.benchmark import Benchmark, Row, seconds, time_columns
from validate.microbench.settings import Settings
from validate.ranks.processes import World

# Read the kinds from the union, so that a new codec is measured without a change here.
_KINDS = kinds_of(CompressionConfig)
_SEED = 0

# Bytes on the wire, and seconds to encode and to decode, of a codec and a vector.
Measure = Callable[[Any, Any, World, Settings], tuple[int, list[float], list[float]]]


def codecs() -> list[Any]:
    """Return every codec with its defaults."""
    return [TypeAdapter(CompressionConfig).validate_python({"kind": kind}) for kind in _KINDS]


def _rows(world: World, settings: Settings) -> Iterator[Row]:
    for codec, size, (library, measured) in _cases(world, settings):
        elements = max(size // 4, 1)
        vector = np.random.default_rng(_SEED).standard_normal(elements, dtype=np.float32)
        nbytes, encode, decode = measured(codec, vector, world, settings)
        for direction, times in (("encode", encode), ("decode", decode)):
            columns = time_columns(times)
            yield {
                "codec": codec.kind,
                "library": library,
                "bytes": vector.nbytes,
                "wire_bytes": nbytes,
                "direction": direction,
                **columns,
                "seconds_per_byte": columns["time_s"] / vector.nbytes,
            }


def _cases(world: World, settings: Settings) -> Iterator[tuple[Any, int, tuple[str, Measure]]]:
    for codec in codecs():
        yield from product([codec], settings.sizes(), _libraries(codec, world))


def _libraries(codec: Any, world: World) -> list[tuple[str, Measure]]:
    """Return the libraries to measure: numpy takes minutes for messages as large as on GPUs."""
    if not torch_codecs.has_operators(codec):
        return [("numpy", _torch if world.on_gpu else _numpy)]
    return [("torch", _torch)] if world.on_gpu else [("numpy", _numpy), ("torch", _torch)]


def _numpy(
    codec: Any, vector: Any, world: World, settings: Settings
) -> tuple[int, list[float], list[float]]:
    """Return bytes on the wire, and seconds to encode and to decode."""
    generator = np.random.default_rng(_SEED)
    encoded = codec.encode(vector, generator)
    encode = seconds(lambda: codec.encode(vector, generator), world, settings)
    decode = seconds(lambda: codec.decode(encoded, len(vector)), world, settings)
    return len(encoded.to_bytes()), encode, decode


def _torch(
    codec: Any, vector: Any, world: World, settings: Settings
) -> tuple[int, list[float], list[float]]:
    tensor = torch.from_numpy(vector).to(world.device)
    generator = torch.Generator(world.device).manual_seed(_SEED)
    encoded = torch_codecs.encode(codec, tensor, generator)
    encode = seconds(lambda: torch_codecs.encode(codec, tensor, generator), world, settings)
    decode = seconds(lambda: torch_codecs.decode(codec, encoded, len(vector)), world, settings)
    return encoded.nbytes, encode, decode


CODECS = Benchmark(
    "codecs", "encoding and decoding: seconds per byte, numpy and torch", False, _rows
)
