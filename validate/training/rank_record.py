"""What a rank has to tell after a run.

Losses, times, final weights, and the order in which things happened to it.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np

from dpsim.base.arrays import RealArray


@dataclass(frozen=True, slots=True)
class Event:
    """Something happened at this rank, ``seconds`` after its run began.

    ``worker``, in its iteration ``clock``, did ``what``.

    ``version``: how many updates the weights here had had by then, where that is counted.
    """

    seconds: float
    what: str
    worker: int
    clock: int
    version: int = 0


@dataclass(slots=True, eq=False)
class RankRecord:
    """One rank's account.

    Lists have one entry for each of its iterations; none for a rank that only serves.

    ``parts_s``: seconds of compute, communication and update; what methods do at the same time as
    computing is in compute. ``carried``: of each iteration the buckets that a library took beside
    it, with the seconds after its begin at which each set out and came. ``weights``: what the run
    ends with on this rank, flat. ``log``: in the order in which it happened here. ``not_run``: why
    nothing of all this is there, "" where it is.
    """

    method: str
    rank: int
    ranks: int
    losses: list[float] = field(default_factory=list)
    step_s: list[float] = field(default_factory=list)
    parts_s: dict[str, list[float]] = field(default_factory=dict)
    carried: list[list[tuple[int, float, float]]] = field(default_factory=list)
    log: list[Event] = field(default_factory=list)
    weights: RealArray = field(default_factory=lambda: np.zeros(0))
    not_run: str = ""

    def summary(self) -> dict[str, Any]:
        """All but the weights, as plain values for JSON."""
        # Not by `asdict`, which would copy the weights first.
        return {
            "method": self.method,
            "rank": self.rank,
            "ranks": self.ranks,
            "losses": self.losses,
            "step_s": self.step_s,
            "parts_s": self.parts_s,
            "carried": self.carried,
            "log": [asdict(event) for event in self.log],
            "not_run": self.not_run,
        }
