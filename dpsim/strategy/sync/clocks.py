"""How many iterations each worker has done, and the slowest of them."""

from __future__ import annotations

from collections import Counter


class Clocks:
    """A clock for each of ``workers`` workers, all at 0; `slowest` costs nothing to ask."""

    def __init__(self, workers: int) -> None:
        self.slowest = 0
        self.living = workers
        self._clocks = [0] * workers
        self._workers_at = Counter({0: workers})

    def __len__(self) -> int:
        return len(self._clocks)

    def __getitem__(self, worker: int) -> int:
        return self._clocks[worker]

    def tick(self, worker: int) -> None:
        """``worker`` has done one more iteration."""
        self._workers_at[self._clocks[worker]] -= 1
        self._clocks[worker] += 1
        self._workers_at[self._clocks[worker]] += 1
        self._advance()

    def leave(self, worker: int) -> None:
        """``worker`` does no more: the others are no longer compared with it."""
        self._workers_at[self._clocks[worker]] -= 1
        self.living -= 1
        self._advance()

    def _advance(self) -> None:
        """Move on to the first clock that somebody is at; where nobody is left, stay."""
        # Clocks only grow, so that all calls together take as many rounds as there are iterations;
        # a minimum over all workers at every tick would take workers times as many.
        while self.living and not self._workers_at[self.slowest]:
            del self._workers_at[self.slowest]
            self.slowest += 1
