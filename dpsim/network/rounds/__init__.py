"""Schedules timed round by round, with vectors over ranks."""

from dpsim.network.rounds.confirmed_rounds import ConfirmedRounds
from dpsim.network.rounds.rounds import RoundsModel, round_bytes

__all__ = [
    "ConfirmedRounds",
    "RoundsModel",
    "round_bytes",
]
