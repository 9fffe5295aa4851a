"""The parts of a step: what they are called in JSON, in tables, in sentences and in figures."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

# Each but "other" is an attribute of `dpsim.engine.Steps`.
PartName = Literal["compute", "input", "encode", "exposed_comm", "straggler_wait", "other"]


@dataclass(frozen=True, slots=True)
class Part:
    """A part of a step: ``title`` as a row of a table, ``words`` within a sentence.

    ``colour`` is the name of one of the colours of figures.
    """

    title: str
    words: str
    colour: str


PARTS: Mapping[PartName, Part] = {
    "compute": Part("computing (forward, backward, optimiser)", "computing", "blue"),
    "input": Part("waiting for input", "waiting for input", "sky blue"),
    "encode": Part("encoding and decoding", "encoding and decoding", "reddish purple"),
    "exposed_comm": Part("communication that nothing hides", "exposed communication", "orange"),
    "straggler_wait": Part("waiting for slower workers", "waiting for slower workers", "vermilion"),
    "other": Part("other", "other", "grey"),
}
