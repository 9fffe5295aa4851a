"""Choice between equal paths: by a hash of the flow's ends (ECMP), or by its destination."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dpsim.base.arrays import GOLDEN, IntArray, mix_bits

_MASK = 2**64 - 1
_LEVEL = 0xD1B54A32D192ED03


@dataclass(frozen=True, slots=True)
class Spread:
    """Spread of flows over equal paths: hashed with ``seed``, or by destination if it is None.

    With a hash, all packets of a pair of ports take one path, as with ECMP over a flow's addresses.
    By destination, as in InfiniBand's static routes, shifts and exchanges over powers of two share
    no link (D-Mod-K: Zahavi, Concurrency and Computation 22, 2010).
    """

    seed: int | None = 0

    def choose(
        self, source: IntArray, destination: IntArray, paths: int | IntArray, level: int = 0
    ) -> IntArray:
        """Return the path, 0 to ``paths`` - 1, of each pair of ports; ``paths`` may differ by pair.

        ``level`` distinguishes the choices of one route.
        """
        if self.seed is None:
            # The destination's digits in base `paths`, one for each level.
            return np.asarray(destination // paths**level % paths)
        return (self.hash(source, destination, level) % np.asarray(paths).astype(np.uint64)).astype(
            np.int64
        )

    def hash(self, source: IntArray, destination: IntArray, level: int = 0) -> NDArray[np.uint64]:
        """Return a 64-bit hash of each pair of ports."""
        # Each level has its own hash: otherwise flows that share a link at one level would share
        # one at every higher level too (polarisation).
        begin = (self.seed or 0) * GOLDEN + (level + 1) * _LEVEL
        # Products of uint64 arrays wrap around, as the finaliser requires.
        from_source = np.asarray(source).astype(np.uint64) * np.uint64(GOLDEN)
        from_destination = np.asarray(destination).astype(np.uint64) * np.uint64(GOLDEN)
        return mix_bits(mix_bits(from_source + np.uint64(begin & _MASK)) + from_destination)


HASHED = Spread(0)
