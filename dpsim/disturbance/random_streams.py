"""Random streams, one for each purpose and each worker (or group of workers).

So no draw depends on what else is drawn.
"""

from __future__ import annotations

import zlib

import numpy as np


def random_stream(seed: int, purpose: str, *index: int) -> np.random.Generator:
    """The stream of ``purpose`` for the worker or group at ``index``.

    It is the same whatever the number of others.
    """
    key = (zlib.crc32(purpose.encode()), *index)
    return np.random.Generator(np.random.Philox(np.random.SeedSequence(seed, spawn_key=key)))
