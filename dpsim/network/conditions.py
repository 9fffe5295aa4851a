"""What a collective meets on its way: other traffic, and links that change at given times."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Background:
    """A flow without end from one rank to another, at most ``rate`` B/s.

    It takes its max-min share of the links on its way.
    """

    source: int
    destination: int
    rate: float = float("inf")


@dataclass(frozen=True, slots=True)
class LinkChange:
    """From ``time`` (s) on, capacity ``link`` has ``factor`` times its rate; 0 cuts it."""

    time: float
    link: int
    factor: float


@dataclass(frozen=True, slots=True)
class Conditions:
    """All other traffic and all changes of links; nothing of either where both are empty."""

    background: tuple[Background, ...] = field(default=())
    changes: tuple[LinkChange, ...] = field(default=())

    def __bool__(self) -> bool:
        return bool(self.background or self.changes)


NO_CONDITIONS = Conditions()
