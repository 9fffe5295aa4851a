"""A worker's notes of one step, in seconds and in times of the monotonic clock."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(slots=True)
class Row:
    """One step of one worker.

    ``begin``: when it began to compute; ``done``: when its gradient was ready; ``end``: when the
    step ended. ``waits``: begin and end of each wait for communication, in order. ``encode``,
    ``input``, ``exposed_comm``, ``straggler_wait`` and ``busy`` are seconds, the last three only of
    independent workers, as are ``passed`` (when its work was with the others) and ``versions``.
    """

    step: int
    begin: float = 0.0
    done: float = 0.0
    end: float = 0.0
    encode: float = 0.0
    input: float = 0.0
    waits: list[tuple[float, float]] = field(default_factory=list)
    exposed_comm: float = 0.0
    straggler_wait: float = 0.0
    busy: float = 0.0
    passed: float = 0.0
    versions: int = 0


@dataclass(frozen=True, slots=True)
class Carried:
    """A message that one worker took part in.

    ``stamps`` are the begin and end of each of its collectives, ``group`` the group that takes
    part.
    """

    step: int
    message: str
    stamps: list[tuple[float, float]]
    group: str = "all"
