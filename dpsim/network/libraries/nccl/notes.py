"""What a description left open."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, order=True)
class Note:
    """A text of ``column`` that the rules could not read in full, and what it was taken as."""

    column: str
    text: str
    taken_as: str

    def __str__(self) -> str:
        return f"{self.column} {self.text!r}: taken as {self.taken_as}"
