"""Fit the shipped NCCL constants.

``python -m tools.refits.nccl_refit`` (about five minutes).

It writes four files from the tables in data/. Nothing else in the package is fitted to these.

- dpsim/network/libraries/nccl/constants.yaml: fitted to all machines.
- residuals.json beside it: the residuals of held-out machines and generations.
- neighbours.json beside it: the residuals of measured nodes, which correct similar nodes.
- left_out.json: for each machine, the constants fitted to all others.
"""

from __future__ import annotations

import json
import sys
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from functools import cache, partial
from pathlib import Path

import numpy as np

import dpsim.network.libraries.nccl
import validate.published
from dpsim.base.terminal import write_whole
from dpsim.network.libraries.nccl import (
    COMMON,
    NEIGHBOURS_FILE,
    OWN_ONLY,
    PARAMS,
    Measured,
    modelled,
    neighbours_of,
    written,
)
from tools.refits.nccl_residuals import coverage, residual_table
from validate.published.nccl.joint_fit import (
    fit_joint,
    fit_without,
    fit_without_generation,
    label_graphs,
)
from validate.published.nccl.map_fit import MACHINE_KEY, Slot, build, standard_errors
from validate.published.nccl.regimes import specification
from validate.published.nccl.scores import MIB, Score, mean_over_machines, scored, transport_group
from validate.published.nccl.sources import LEFT_OUT_FILE, measured_inside
from validate.published.nccl.table import Case, Kind, read_table

PUBLISHED = Path(validate.published.__path__[0])
CONSTANTS = Path(dpsim.network.libraries.nccl.__path__[0]) / "constants.yaml"
RESIDUALS = CONSTANTS.with_name("residuals.json")
NEIGHBOURS = CONSTANTS.with_name(NEIGHBOURS_FILE)
Constants = dict[Slot, float]
_WORKERS = 2
TABLES: tuple[tuple[str, Kind], ...] = (
    ("nccl_single_node.csv", "nccl-single-node"),
    ("nccl_tests.csv", "nccl-tests"),
    ("nccl_tests_2.csv", "nccl-tests"),
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
# generation_left_out_error: the same without all machines of its generation or transport.
# twins_error: the same where others of the same description are the prediction, \
on rows that several machines have.
# left_out_error_beside_twins: left_out_error on the same rows.
"""


@cache
def training_cases() -> list[Case]:
    """Return the curves that the shipped constants are fitted to."""
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
    generations = sorted({case.machine.generation for case in cases})
    # Fitting without each machine and each generation takes nearly all of the time.
    with ProcessPoolExecutor(_WORKERS) as workers:
        without = _fits(workers, fit_without, machines)
        without_generation = _fits(workers, fit_without_generation, generations)

    inside = measured_inside(cases)
    scores = []
    for machine in machines:
        own = [case for case in cases if case.machine_name == machine]
        others = [curve for curve in inside if curve.name != machine]
        scores += _scores(own, without[machine], others)
    # A machine whose generation is left out has no neighbours.
    by_generation = []
    for left_out in generations:
        own = [case for case in cases if case.machine.generation == left_out]
        by_generation += _scores(own, without_generation[left_out], [])

    fitted = fit_joint(cases)
    write_whole(CONSTANTS, constants_text(fitted, cases, scores, by_generation))
    table = residual_table(scores, by_generation)
    table["coverage"] = coverage(scores, by_generation)
    nearest = neighbours_of(inside, modelled(fitted))
    text = ",\n".join(json.dumps(written(neighbour)) for neighbour in nearest)
    write_whole(NEIGHBOURS, f"[{text}]\n")
    write_whole(RESIDUALS, json.dumps(table, indent=1) + "\n")
    # To recognise a table whose machines have other names.
    curves = {case.fingerprint: case.machine_name for case in cases}
    content = {
        "curves": curves,
        "without": {machine: _groups(fit) for machine, fit in without.items()},
    }
    write_whole(
        PUBLISHED / "nccl" / LEFT_OUT_FILE,
        json.dumps(content, indent=None, separators=(",", ":")) + "\n",
    )


def _fits(
    workers: ProcessPoolExecutor,
    fit: Callable[[Iterable[Case], str], Constants],
    left_out: Sequence[str],
) -> dict[str, Constants]:
    """Fit without each of ``left_out``, in parallel; the results do not depend on the processes."""
    fits = {}
    every = workers.map(partial(_fit, fit), left_out)
    for done, (name, known) in enumerate(zip(left_out, every, strict=True), 1):
        fits[name] = known
        sys.stderr.write(f"{done}/{len(left_out)} without {name}\n")
    return fits


# Only the name is sent, not the cases: each process reads the tables once.
def _fit(fit: Callable[[Iterable[Case], str], Constants], left_out: str) -> Constants:
    return fit(training_cases(), left_out)


def _scores(
    cases: Sequence[Case], known: Mapping[Slot, float], curves: Sequence[Measured]
) -> list[Score]:
    """Score cases predicted by ``known``, corrected by the residuals on measured ``curves``."""
    neighbours = neighbours_of(curves, modelled(known))
    return [
        score
        for predicted in specification(cases, known, neighbours)
        for score in scored(predicted, "left out")
    ]


def constants_text(
    known: Mapping[Slot, float],
    cases: Sequence[Case],
    by_machine: Sequence[Score],
    by_generation: Sequence[Score],
) -> str:
    """Return constants.yaml, without single machines' own effects."""
    with_twins, twins = beside_twins(by_machine)
    lines = [
        "fitted_on:",
        *(f"  - validate/published/data/{name}" for name, _ in TABLES),
        "left_out_error:",
        *_error_lines(by_machine),
        "generation_left_out_error:",
        *_error_lines(by_generation),
        "twins_error:",
        *_error_lines(twins),
        "left_out_error_beside_twins:",
        *_error_lines(with_twins),
        "groups:",
        *_group_lines(known, cases),
    ]
    return _HEADER + "\n".join(lines) + "\n"


def _group_lines(known: Mapping[Slot, float], cases: Sequence[Case]) -> Iterator[str]:
    """Yield the constants of each group with their errors."""
    problem = build(label_graphs(cases, known), known)
    found = standard_errors(problem, np.array([known[slot] for slot in problem.slots]))
    errors = dict(zip(problem.slots, found, strict=True))
    of = {p.name: p for p in PARAMS}
    groups = _groups(known, 8)
    # Common values first: all other groups are factors on them, without a unit.
    for key in sorted(groups, key=lambda key: (key != COMMON, key)):
        yield f"  {key}:"
        for name, value in groups[key].items():
            numbers = f"value: {np.exp(value):.5e}, error: {errors[key, name]:.3f}"
            if key == COMMON:
                yield f"    {name}: {{{numbers}, unit: {of[name].unit!r}}}  # {of[name].text}"
            else:
                yield f"    {name}: {{{numbers}}}"


def _error_lines(scores: Sequence[Score]) -> list[str]:
    """Return a line for each group: the mean over machines, of all sizes and from 1 MiB."""
    groups: dict[str, list[Score]] = defaultdict(list)
    for score in scores:
        groups[transport_group(score.case.machine, score.case.op)].append(score)
    lines = []
    for heading, part in sorted(groups.items()):
        large = [score for score in part if score.nbytes >= MIB]
        error = f", from_1MiB: {mean_over_machines(large):.3f}" if large else ""
        machines = len({score.case.machine_name for score in part})
        lines.append(
            f"  {heading}: {{all: {mean_over_machines(part):.3f}{error}, machines: {machines}}}"
        )
    return lines


def _groups(known: Mapping[Slot, float], digits: int = 5) -> dict[str, dict[str, float]]:
    """Return constants by group, then name.

    Leaves out the effects of single machines, and groups that no machine of the fit needed.
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


# For one description and operation: ln seconds by size, then by machine.
_Measured = dict[float, dict[str, list[float]]]


def beside_twins(scores: Sequence[Score]) -> tuple[list[Score], list[Score]]:
    """Return the rows that have twins, and the same rows as predicted by their twins.

    A twin of a row is another machine of the same description with the same operation and size. The
    prediction is the geometric mean over twins, each of which counts once. Properties that the
    model does not read, such as a machine's name, are not part of its description; nor is NCCL's
    version.
    """
    measured: dict[object, _Measured] = defaultdict(lambda: defaultdict(lambda: defaultdict(list)))
    for score in scores:
        of_size = measured[_description(score)][score.nbytes]
        of_size[score.case.machine_name].append(float(np.log(score.measured)))

    rows, twins = [], []
    for score in scores:
        of_size = measured[_description(score)][score.nbytes]
        others = [
            np.mean(logs) for name, logs in of_size.items() if name != score.case.machine_name
        ]
        if others:
            rows.append(score)
            twins.append(replace(score, predicted=float(np.exp(np.mean(others)))))
    return rows, twins


def _description(score: Score) -> object:
    """Return the model's inputs for a row, without its size."""
    case = score.case
    machine = replace(case.machine, gpu="", nccl_version=None, graph=0)
    return machine, case.op, case.element_bytes == 1


if __name__ == "__main__":
    main()
