"""The network conditions of a collective: background traffic, and links that change over time."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Background:
    """An endless flow from one rank to another, at most ``rate`` B/s.

    It takes its max-min share of the links on its route.
    """

    source: int
    destination: int
    rate: float = float("inf")


@dataclass(frozen=True, slots=True)
class LinkChange:
    """A change of capacity ``link`` to ``factor`` times its rate at ``time`` (s); 0 cuts it."""

    time: float
    link: int
    factor: float


@dataclass(frozen=True, slots=True)
class Conditions:
    """All background traffic and all link changes; false if there are none."""

    background: tuple[Background, ...] = ()
    changes: tuple[LinkChange, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.background or self.changes)


NO_CONDITIONS = Conditions()
