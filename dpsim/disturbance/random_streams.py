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
    # Philox by a key: streams are independent, however many there are. A crc32 and not hash(),
    # which differs from process to process.
    key = (zlib.crc32(purpose.encode()), *index)
    return np.random.Generator(np.random.Philox(np.random.SeedSequence(seed, spawn_key=key)))
