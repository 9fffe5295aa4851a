"""The constants that a machine is predicted with: never any that were fitted on the machine."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from dpsim.base.shipped import shipped_json
from dpsim.network.libraries.nccl import (
    Measured,
    Neighbour,
    modelled,
    shipped_constants,
    shipped_neighbours,
)
from validate.published.nccl.map_fit import Slot
from validate.published.nccl.table import Case

Known = Mapping[Slot, float]
LEFT_OUT_FILE = "left_out.json"


def fitted_machine(cases: Sequence[Case]) -> str | None:
    """Return the machine of the shipped fit that ``cases``, all of one machine, belong to.

    It is found by name, or by identical curves under another name. None if it was not fitted on.
    """
    content = left_out_file()
    name = cases[0].machine_name
    if name in content["without"]:
        return name
    # A copy of a fitted table under new names must not count as unseen.
    prints: dict[str, str] = content["curves"]
    return next((prints[case.fingerprint] for case in cases if case.fingerprint in prints), None)


def constants(without: str | None) -> tuple[Known, str]:
    """Return shipped constants fitted without that machine (None: on all), and words for them."""
    if without is None:
        return shipped_constants(), "shipped"
    groups: dict[str, dict[str, float]] = left_out_file()["without"][without]
    return {
        (key, name): value for key, group in groups.items() for name, value in group.items()
    }, "shipped, without this machine"


def neighbours(without: str | None) -> Sequence[Neighbour]:
    """Return the measured machines except that one, with residuals under its `constants`."""
    if without is None:
        return shipped_neighbours()
    known, _ = constants(without)
    others = [each for each in shipped_neighbours() if each.name != without]
    return [each.under(modelled(), modelled(known)) for each in others]


def measured_inside(cases: Iterable[Case]) -> list[Measured]:
    """Return the curves of quality ok inside one node, whose residuals correct similar machines."""
    return [
        Measured(
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
    """One machine's cases, the constants and neighbours to predict them, and words for these."""

    cases: list[Case]
    known: Known
    neighbours: Sequence[Neighbour]
    words: str


def assign(cases: Sequence[Case]) -> Iterator[Assigned]:
    """Yield each machine's cases with the constants and neighbours to predict them with."""
    machines: dict[str, list[Case]] = {}
    for case in cases:
        machines.setdefault(case.machine_name, []).append(case)
    for own in machines.values():
        without = fitted_machine(own)
        known, words = constants(without)
        yield Assigned(own, known, neighbours(without), words)


def left_out_file() -> dict[str, Any]:
    """Return the content of left_out.json.

    ``without`` (machine, group, name, ln value), and ``curves`` (fingerprint, machine) of the cases
    fitted on.
    """
    content: dict[str, Any] = shipped_json("validate.published.nccl", LEFT_OUT_FILE)
    return content
