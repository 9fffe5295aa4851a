"""One of the groups in which a library's collective runs."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from dpsim.base.arrays import FloatArray, IntArray
from dpsim.base.uncertainty import ModelError
from dpsim.collectives import Traffic
from dpsim.network.collective_models import CollectiveModel
from dpsim.network.outcome import Outcome
from dpsim.topology import SubNetwork


class OneGroup(CollectiveModel):
    """The group ``ranks`` of the model ``whole``, whose groups are independent.

    ``loads(nbytes)`` returns the group's own load on each link.
    """

    def __init__(
        self, whole: CollectiveModel, ranks: IntArray, loads: Callable[[int], FloatArray]
    ) -> None:
        self.whole = whole
        self.ranks = ranks
        self._loads = loads
        self.network = SubNetwork(whole.network, ranks)

    def _finish(self, starts: FloatArray, nbytes: int) -> Outcome:
        """Return when each rank that enters at ``starts`` (s) leaves (s)."""
        # The model needs all ranks' starts. The others start with this group's last rank, so that
        # they cause no delay.
        all_starts = np.full(self.whole.network.ranks, starts.max())
        all_starts[self.ranks] = starts
        finishes = self.whole.finish(all_starts, nbytes).finishes[self.ranks]
        return Outcome(finishes, self.loads(nbytes))

    def loads(self, nbytes: int) -> FloatArray:
        """Return the bytes on each capacity."""
        return self._loads(nbytes)

    def traffic(self, nbytes: int) -> Traffic:
        """Return the bytes that each rank of the group sends and receives."""
        moved = self.whole.traffic(nbytes)
        return Traffic(moved.sent[self.ranks], moved.received[self.ranks])

    def sustained(self) -> float:
        return self.whole.sustained()

    def model_error(self, nbytes: int) -> ModelError:
        return self.whole.model_error(nbytes)

    def algorithm_for(self, nbytes: int) -> str:
        return self.whole.algorithm_for(nbytes)
