"""One group of a library's collective in several groups."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from dpsim.base.arrays import FloatArray, IntArray
from dpsim.base.doubt import Doubt
from dpsim.collectives import Traffic
from dpsim.network.model import CollectiveModel
from dpsim.network.outcome import Outcome
from dpsim.topology import SubNetwork


class OneGroup(CollectiveModel):
    """The group of ``ranks`` of the model ``whole``, whose groups wait for nobody else.

    ``loads(nbytes)`` is what it alone puts on each link.
    """

    def __init__(
        self, whole: CollectiveModel, ranks: IntArray, loads: Callable[[int], FloatArray]
    ) -> None:
        self.whole = whole
        self.ranks = ranks
        self._loads = loads
        self.network = SubNetwork(whole.network, ranks)

    def _finish(self, starts: FloatArray, nbytes: int) -> Outcome:
        """When each rank leaves (s) that enters at ``starts`` (s)."""
        # The whole is asked for all its ranks: the others start when this group's last does, and
        # hold nobody up.
        everyone = np.full(self.whole.network.ranks, starts.max())
        everyone[self.ranks] = starts
        finishes = self.whole.finish(everyone, nbytes).finishes[self.ranks]
        return Outcome(finishes, self.loads(nbytes))

    def loads(self, nbytes: int) -> FloatArray:
        """Bytes on each capacity."""
        return self._loads(nbytes)

    def traffic(self, nbytes: int) -> Traffic:
        """Bytes that each rank of the group sends and receives."""
        moved = self.whole.traffic(nbytes)
        return Traffic(moved.sent[self.ranks], moved.received[self.ranks])

    def sustained(self) -> float:
        """That of the whole."""
        return self.whole.sustained()

    def doubt(self, nbytes: int) -> Doubt:
        """That of the whole."""
        return self.whole.doubt(nbytes)

    def algorithm_for(self, nbytes: int) -> str:
        """That of the whole."""
        return self.whole.algorithm_for(nbytes)
