"""Algorithm ``auto``: the fastest at each size on this network when all ranks start together."""

from __future__ import annotations

import heapq
from collections.abc import Callable

import numpy as np

from dpsim.base.arrays import FloatArray
from dpsim.collectives import Schedule, Traffic
from dpsim.network.collective_models import CollectiveModel
from dpsim.network.outcome import Outcome
from dpsim.network.rounds import ConfirmedRounds

# Limits of the schedules that are laid out for a comparison.
_MOST_AT_ONCE = 1 << 18  # transfers of one round
_MOST_PATTERNS = 1 << 10  # rounds with a pattern of their own


def is_quick(schedule: Schedule) -> bool:
    """Return whether timing ``schedule`` by rounds is fast.

    It is slow for the all-to-all or the round-robin of many hundred ranks.
    """
    at_once = 0
    patterns = 0
    for phase in schedule.phases:
        if phase.at_once:
            at_once = max(at_once, phase.turns * len(phase.source))
        patterns += 1 if phase.steady else phase.rounds
    return at_once <= _MOST_AT_ONCE and patterns <= _MOST_PATTERNS


class FastestModel(CollectiveModel):
    """The fastest of ``candidates``, models by name, at each size; the first of equally fast ones.

    ``timed_by(name)``, if given, returns the model that times the chosen algorithm instead of the
    candidate.
    """

    def __init__(
        self,
        candidates: dict[str, CollectiveModel],
        timed_by: Callable[[str], CollectiveModel] | None = None,
    ) -> None:
        self.candidates = candidates
        self.network = next(iter(candidates.values())).network
        self._timed_by = timed_by or candidates.__getitem__
        self._chosen: dict[int, str] = {}
        self._models: dict[str, CollectiveModel] = {}

    def finish(self, starts: FloatArray, nbytes: int) -> Outcome:
        """Return when each rank that enters at ``starts`` finishes (s, vectors over ranks).

        Uses the algorithm that is fastest when all ranks start together.
        """
        return self._model_for(nbytes).finish(starts, nbytes)

    def _finish(self, starts: FloatArray, nbytes: int) -> Outcome:
        return self.finish(starts, nbytes)

    def finish_after(self, starts: FloatArray, nbytes: int, refilled_at: float) -> Outcome:
        return self._model_for(nbytes).finish_after(starts, nbytes, refilled_at)

    def _model_for(self, nbytes: int) -> CollectiveModel:
        name = self.algorithm_for(nbytes)
        if name not in self._models:
            self._models[name] = self._timed_by(name)
        return self._models[name]

    @property
    def joins_all(self) -> bool:
        return all(model.joins_all for model in self.candidates.values())

    def of_size(self, nbytes: int) -> CollectiveModel:
        """Return the model of the chosen algorithm."""
        return self._model_for(nbytes)

    def traffic(self, nbytes: int) -> Traffic:
        """Return the bytes that each rank sends and receives with the chosen algorithm."""
        return self.candidates[self.algorithm_for(nbytes)].traffic(nbytes)

    def algorithm_for(self, nbytes: int) -> str:
        """Return the name of the fastest algorithm."""
        if nbytes not in self._chosen:
            # From a common start, so that the choice depends only on the size, like a library's.
            self._chosen[nbytes] = self._fastest(nbytes)
        return self._chosen[nbytes]

    def _fastest(self, nbytes: int) -> str:
        """Return the candidate that is fastest from a common start.

        Candidates are confirmed in the order of their estimates, so few need to be.
        """
        # The number breaks ties, so that names are never compared.
        queue = [
            (_estimate(model, nbytes), number, name, False)
            for number, (name, model) in enumerate(self.candidates.items())
        ]
        heapq.heapify(queue)
        while True:
            _, number, name, confirmed = heapq.heappop(queue)
            if confirmed:
                return name
            seconds = self.candidates[name].seconds_from_common_start(nbytes)
            heapq.heappush(queue, (seconds, number, name, True))


def _estimate(model: CollectiveModel, nbytes: int) -> float:
    """Return a lower estimate of the time of ``model`` (s), by rounds alone where it has them."""
    if isinstance(model, ConfirmedRounds):
        starts = np.zeros(model.network.ranks)
        return float(model.rounds.ends_of_rounds(starts, nbytes).max())
    return model.seconds_from_common_start(nbytes)
