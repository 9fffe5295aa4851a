"""Which constants a machine is predicted with.

Never any that have seen it, unless that is asked for, and then it is said.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial
from importlib.resources import files
from typing import Any, Literal, Protocol

import numpy as np

from dpsim.network.libraries.nccl import Kin, shipped_constants, shipped_kin
from validate.published.nccl.joint_fit import fit_joint, fit_without
from validate.published.nccl.map_fit import Slot
from validate.published.nccl.table import Case

LeaveOut = Literal["machine", "none"]
Known = Mapping[Slot, float]
LEFT_OUT_FILE = "left_out.json"


class Source(Protocol):
    """Where constants come from."""

    def seen(self, cases: Sequence[Case]) -> str | None:
        """The machine of the fit that ``cases``, one machine's, belong to.

        None where it took no part.
        """

    def constants(self, without: str | None) -> tuple[Known, str]:
        """Constants fitted without that machine (None: on all), and words for them."""

    def kin(self, without: str | None) -> list[Kin]:
        """Measured curves of one node, without that machine's."""


class Shipped:
    """The constants of the package; those without one machine were fitted beforehand."""

    def seen(self, cases: Sequence[Case]) -> str | None:
        """By name, or by curves that are the same under another name."""
        content = left_out_file()
        name = cases[0].machine_name
        if name in content["without"]:
            return name
        # A copy of a fitted table under new names must not count as unseen.
        prints: dict[str, str] = content["curves"]
        return next(
            (prints[case.fingerprint] for case in cases if case.fingerprint in prints), None
        )

    def constants(self, without: str | None) -> tuple[Known, str]:
        """Read from the package."""
        if without is None:
            return shipped_constants(), "shipped"
        groups: dict[str, dict[str, float]] = left_out_file()["without"][without]
        return {
            (key, name): value for key, group in groups.items() for name, value in group.items()
        }, "shipped, without this machine"

    def kin(self, without: str | None) -> list[Kin]:
        """Read from the package."""
        return [curve for curve in shipped_kin() if curve.name != without]


class FittedOn:
    """Constants fitted on given cases, afresh for each machine that must be left out."""

    def __init__(self, cases: Iterable[Case]) -> None:
        self.cases = list(cases)
        self._names = {case.machine_name for case in self.cases if case.quality == "ok"}
        self._prints = {
            case.fingerprint: case.machine_name for case in self.cases if case.quality == "ok"
        }
        self._fits: dict[str | None, Known] = {}

    def seen(self, cases: Sequence[Case]) -> str | None:
        """By name, or by curves that are the same under another name."""
        if cases[0].machine_name in self._names:
            return cases[0].machine_name
        return next(
            (self._prints[case.fingerprint] for case in cases if case.fingerprint in self._prints),
            None,
        )

    def constants(self, without: str | None) -> tuple[Known, str]:
        """Fit now, once for each machine that is left out.

        Raises DpsimError where nothing is left to fit on.
        """
        if without is None:
            fit, words = fit_joint, "fitted on --fit-on"
        else:
            fit = partial(fit_without, machine=without)
            words = "fitted on --fit-on, without this machine"
        if without not in self._fits:
            self._fits[without] = fit(self.cases)
        return self._fits[without], words

    def kin(self, without: str | None) -> list[Kin]:
        """From the cases given."""
        return [curve for curve in kin_of(self.cases) if curve.name != without]


def kin_of(cases: Iterable[Case]) -> list[Kin]:
    """The curves of quality ok inside one node, as kin of others."""
    return [
        Kin(
            case.machine_name,
            case.machine,
            case.op,
            case.element_bytes,
            np.asarray(case.nbytes),
            np.asarray(case.times),
        )
        for case in cases
        if case.quality == "ok" and case.machine.nodes == 1 and case.machine.ranks > 1
    ]


@dataclass(frozen=True, slots=True)
class Assigned:
    """One machine's cases, what to predict them with, and words for it."""

    cases: list[Case]
    known: Known
    kin: list[Kin]
    words: str


def assign(
    cases: Sequence[Case],
    source: Source,
    leave_out: LeaveOut,
    progress: Callable[[int], None] = lambda done: None,
) -> list[Assigned]:
    """Each machine's cases with what to predict them with.

    ``progress`` gets machines done.
    """
    machines: dict[str, list[Case]] = {}
    for case in cases:
        machines.setdefault(case.machine_name, []).append(case)
    assigned = []
    for done, own in enumerate(machines.values(), 1):
        seen = source.seen(own)
        without = seen if leave_out == "machine" else None
        known, words = source.constants(without)
        if seen is not None and leave_out == "none":
            words += ", which saw this machine"
        assigned.append(Assigned(own, known, source.kin(without), words))
        progress(done)
    return assigned


@cache
def left_out_file() -> dict[str, Any]:
    """The content of left_out.json.

    ``without`` (machine, group, name, ln value) and ``curves`` (fingerprint, machine) of what was
    fitted on.
    """
    text = files("validate.published.nccl").joinpath(LEFT_OUT_FILE).read_text(encoding="utf-8")
    content: dict[str, Any] = json.loads(text)
    return content
