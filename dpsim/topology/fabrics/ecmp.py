"""Choice between equal paths: by a hash of the flow's ends (ECMP), or by its destination."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dpsim.base.arrays import GOLDEN, IntArray, mixed

_MASK = 2**64 - 1
_LEVEL = 0xD1B54A32D192ED03


@dataclass(frozen=True, slots=True)
class Spread:
    """Spread of flows over equal paths: hashed with ``seed``, or by destination if it is None.

    Hashed: all packets of a pair of ports take one path, as with ECMP over a flow's addresses. By
    destination (D-Mod-K: Zahavi, Concurrency and Computation 22, 2010, as InfiniBand's static
    routes): shifts and exchanges over powers of two share no link.
    """

    seed: int | None = 0

    def choose(
        self, source: IntArray, destination: IntArray, ways: int | IntArray, level: int = 0
    ) -> IntArray:
        """Return the path, 0 to ``ways`` - 1, of each pair of ports; ``ways`` may differ by pair.

        ``level`` distinguishes the choices of one route.
        """
        if self.seed is None:
            # The destination's digits in base `ways`, one for each level.
            return np.asarray(destination // ways**level % ways)
        return (self.hash(source, destination, level) % np.asarray(ways).astype(np.uint64)).astype(
            np.int64
        )

    def hash(self, source: IntArray, destination: IntArray, level: int = 0) -> NDArray[np.uint64]:
        """Return 64 well mixed bits for each pair of ports."""
        # A separate hash for each level: with one for all, flows that share a link at a lower level
        # would share one at every higher level too (polarisation).
        begin = (self.seed or 0) * GOLDEN + (level + 1) * _LEVEL
        # Products of uint64 arrays wrap around, as the finaliser requires.
        from_source = np.asarray(source).astype(np.uint64) * np.uint64(GOLDEN)
        from_destination = np.asarray(destination).astype(np.uint64) * np.uint64(GOLDEN)
        return mixed(mixed(from_source + np.uint64(begin & _MASK)) + from_destination)


HASHED = Spread(0)
