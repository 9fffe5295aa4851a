"""The two regimes: predict a machine from its description alone, or with every fourth size of each case measured."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from dpsim.network.nccl.assembly import machine_logs
from dpsim.network.nccl.machine import NcclMachine
from validate.reference.joint_fit import GRAPHS, label_graphs, predict_case
from validate.reference.map_fit import Array, Slot, build_own, case_logs, objective, solve
from validate.reference.table import Case

CALIBRATION_STRIDE = 4
# How far a machine, then a single case, may move from the constants before it, in units of the families' spread.
_MACHINE_SPREAD, _CASE_SPREAD = 1.0, 1.0
_GRAPH_PRICE = 1.0  # what leaving the shipped topology-search result costs in a calibration


@dataclass(frozen=True, slots=True)
class Predicted:
    """A case with seconds for each of its sizes, and which of them may count (those that nothing was fitted on)."""

    case: Case
    seconds: Array
    counts: npt.NDArray[np.bool_]


Regime = Callable[[Sequence[Case], Mapping[Slot, float]], list[Predicted]]


def specification(cases: Sequence[Case], known: Mapping[Slot, float]) -> list[Predicted]:
    """Each case from its description and ``known`` alone."""
    every = [predict_case(case, machine_logs(known, case.machine)) for case in cases]
    return [Predicted(case, times, np.ones(len(times), dtype=bool)) for case, times in zip(cases, every, strict=True)]


def calibrated(cases: Sequence[Case], known: Mapping[Slot, float]) -> list[Predicted]:
    """One machine's cases after a MAP refinement of ``known`` on every fourth size: the machine's constants, then each case's."""
    thinned = [_thin(case) for case in cases]
    labelled = label_graphs([part for part, _ in thinned], known)
    logs = np.array([machine_logs(known, case.machine) for case in cases])
    shared = build_own(labelled, logs, _MACHINE_SPREAD)
    machine = case_logs(shared, solve(shared))
    rows: list[Predicted] = []
    for case, part, (_, counts), own in zip(cases, labelled, thinned, machine, strict=True):
        seen, final = min((_refine(part, own, graph) for graph in GRAPHS), key=lambda best: best[0])[1:]
        rows.append(Predicted(case, predict_case(replace(case, machine=seen), final), counts))
    return rows


REGIMES: dict[str, Regime] = {"specification": specification, "calibrated": calibrated}


def _thin(case: Case) -> tuple[Case, npt.NDArray[np.bool_]]:
    """The case's every fourth size, and which sizes that leaves to be counted."""
    keep = np.arange(len(case.nbytes)) % CALIBRATION_STRIDE == 0
    sizes, times = np.asarray(case.nbytes)[keep].tolist(), np.asarray(case.times)[keep].tolist()
    return replace(case, nbytes=sizes, times=times), ~keep


def _refine(part: Case, own: Array, graph: int) -> tuple[float, NcclMachine, Array]:
    """MAP of one case under one topology-search result: (objective, machine, ln theta)."""
    machine = replace(part.machine, graph=graph)
    problem = build_own([replace(part, machine=machine)], own[None, :], _CASE_SPREAD)
    x = solve(problem)
    return objective(problem, x) + (_GRAPH_PRICE if graph else 0.0), machine, case_logs(problem, x)[0]
