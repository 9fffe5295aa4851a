"""Real processes: how they are started, joined, and given hosts with known links."""

from validate.ranks.processes import (
    Place,
    World,
    choose,
    first_line,
    grouped,
    joined,
    meet,
    place_from_environment,
    same_clock,
    why_missing,
)

__all__ = [
    "Place",
    "World",
    "choose",
    "first_line",
    "grouped",
    "joined",
    "meet",
    "place_from_environment",
    "same_clock",
    "why_missing",
]
