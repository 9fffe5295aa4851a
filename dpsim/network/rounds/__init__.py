"""Schedules a round at a time, as vectors over ranks."""

from dpsim.network.rounds.lockstep import rounds_stay_apart
from dpsim.network.rounds.rounds import RoundsModel

__all__ = [
    "RoundsModel",
    "rounds_stay_apart",
]
