"""Fits the constants that the package ships anew.

``python -m tools.refits.nccl_refit`` (about three minutes).

Writes dpsim/network/libraries/nccl/constants.yaml (fitted on all machines) and left_out.json (on
all machines but one, for each), from the tables in data/. Nothing else in the package is fitted on
these tables.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

import dpsim.network.libraries.nccl
import validate.published
from dpsim.base.terminal import write_whole
from dpsim.network.libraries.nccl import COMMON, OWN_ONLY, PARAMS
from validate.published.nccl import (
    LEFT_OUT_FILE,
    MACHINE_KEY,
    MIB,
    Case,
    Kind,
    Score,
    Slot,
    build,
    fit_joint,
    fit_without,
    label_graphs,
    read_table,
    scored,
    specification,
    standard_errors,
    summary,
    transport_group,
)

PUBLISHED = Path(validate.published.__path__[0])
CONSTANTS = Path(dpsim.network.libraries.nccl.__path__[0]) / "constants.yaml"
TABLES: tuple[tuple[str, Kind], ...] = (
    ("nccl_single_node.csv", "nccl-single-node"),
    ("nccl_tests.csv", "nccl-tests"),
    ("vtrain_allreduce.csv", "vtrain-allreduce"),
)
_HEADER = """\
# Constants of NCCL's collectives. Written by: python -m tools.refits.nccl_refit
# common: absolute values in SI units; every other group: \
factors on common for a link family, a generation or a transport.
# error: posterior standard deviation of the logarithm (0.1 is about 10 %), \
from the curvature at the optimum.
# Fitted by soft-L1 on ln(model / measured) with the priors of parameters.py, \
on rows of quality ok of the tables below.
# left_out_error: mean over machines of each machine's mean absolute percentage error, \
predicted without it; a fraction.
"""


def training_cases() -> list[Case]:
    """The curves that the shipped constants are fitted on."""
    return [
        case
        for name, kind in TABLES
        for case in read_table(PUBLISHED / "data" / name, kind)
        if case.quality == "ok"
    ]


def main() -> None:
    """Fit, evaluate and write."""
    cases = training_cases()
    machines = sorted({case.machine_name for case in cases})
    without: dict[str, dict[Slot, float]] = {}
    scores: list[Score] = []
    for done, machine in enumerate(machines, 1):
        without[machine] = fit_without(cases, machine)
        own = [case for case in cases if case.machine_name == machine]
        scores += [
            score
            for predicted in specification(own, without[machine])
            for score in scored(predicted, "left out")
        ]
        sys.stderr.write(f"{done}/{len(machines)} {machine}\n")
    known = fit_joint(cases)
    write_whole(CONSTANTS, constants_text(known, cases, scores))
    curves = {case.fingerprint: case.machine_name for case in cases}
    content = {
        "curves": curves,
        "without": {machine: _groups(fit) for machine, fit in without.items()},
    }
    write_whole(
        PUBLISHED / "nccl" / LEFT_OUT_FILE,
        json.dumps(content, indent=None, separators=(",", ":")) + "\n",
    )


def constants_text(
    known: Mapping[Slot, float], cases: Sequence[Case], scores: Sequence[Score]
) -> str:
    """constants.yaml; single machines' own effects are left out."""
    problem = build(label_graphs(cases, known))
    errors = dict(
        zip(
            problem.slots,
            standard_errors(problem, np.array([known[slot] for slot in problem.slots])),
            strict=True,
        )
    )
    lines = [
        "fitted_on:",
        *(f"  - validate/published/data/{name}" for name, _ in TABLES),
        "left_out_error:",
    ]
    for kind, heading in sorted(
        {(score.case.kind, transport_group(score.case.machine)) for score in scores}
    ):
        part = [
            score
            for score in scores
            if (score.case.kind, transport_group(score.case.machine)) == (kind, heading)
        ]
        every, large = summary(part), summary([score for score in part if score.nbytes >= MIB])
        lines.append(
            f"  {kind} {heading}: "
            f"{{all: {every['mean_over_machines']:.3f}, "
            f"from_1MiB: {large['mean_over_machines']:.3f}, "
            f"machines: {every['machines']}}}"
        )
    units = {p.name: (p.unit, p.text) for p in PARAMS}
    lines.append("groups:")
    for key, group in sorted(
        _groups(known, 8).items(), key=lambda item: (item[0] != COMMON, item[0])
    ):
        lines.append(f"  {key}:")
        for name, value in group.items():
            unit = f", unit: {units[name][0]!r}" if key == COMMON else ""
            text = f"  # {units[name][1]}" if key == COMMON else ""
            lines.append(
                f"    {name}: "
                f"{{value: {np.exp(value):.5e}, error: {errors[key, name]:.3f}{unit}}}{text}"
            )
    return _HEADER + "\n".join(lines) + "\n"


def _groups(known: Mapping[Slot, float], digits: int = 5) -> dict[str, dict[str, float]]:
    """Constants by group, then name.

    Without the effects of single machines and without groups that no machine of the fit needed.
    """
    groups: dict[str, dict[str, float]] = {}
    for (key, name), value in sorted(known.items()):
        if (
            not key.startswith(MACHINE_KEY)
            and name not in OWN_ONLY
            and key not in ("none", "default")
        ):
            groups.setdefault(key, {})[name] = round(value, digits)
    return groups


if __name__ == "__main__":
    main()
