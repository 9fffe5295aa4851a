"""The two regimes: a machine is only described, or every fourth size of it is measured."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from dpsim.base.arrays import FloatArray
from dpsim.network.libraries.nccl import NcclMachine, Neighbour, machine_logs, predict
from validate.published.nccl.joint_fit import (
    GRAPHS,
    label_graphs,
    predict_mixed,
)
from validate.published.nccl.known_sizes import between_the_known, credible, usual_step
from validate.published.nccl.map_fit import Slot, build_own, case_logs, objective, solve
from validate.published.nccl.residual_curves import Curve, corrections
from validate.published.nccl.table import Case

CALIBRATION_STRIDE = 4
# How far a machine, then a single case, may deviate from its previous constants, in units of the
# families' spread.
_MACHINE_SPREAD, _CASE_SPREAD = 1.0, 1.0
_GRAPH_PRICE = 1.0  # cost of leaving the shipped topology-search result in a calibration


@dataclass(frozen=True, slots=True)
class Predicted:
    """A case with seconds for each of its sizes, and which of them count.

    Sizes count if nothing was fitted on them. ``neighbours`` are measured machines that corrected
    it. ``is_calibrated``: whether the other sizes are known.
    """

    case: Case
    seconds: FloatArray
    counts: npt.NDArray[np.bool_]
    neighbours: tuple[str, ...] = ()
    is_calibrated: bool = False


Regime = Callable[[Sequence[Case], Mapping[Slot, float], Sequence[Neighbour]], list[Predicted]]


def specification(
    cases: Sequence[Case], known: Mapping[Slot, float], neighbours: Sequence[Neighbour]
) -> list[Predicted]:
    """Predict each case from its description, ``known`` and ``neighbours`` alone."""
    predicted = []
    for case in cases:
        found = predict(case.machine, case.op, case.element_bytes, case.nbytes, known, neighbours)
        counts = np.ones(len(case.nbytes), dtype=bool)
        predicted.append(Predicted(case, found.seconds, counts, found.neighbours))
    return predicted


def calibrated(
    cases: Sequence[Case], known: Mapping[Slot, float], neighbours: Sequence[Neighbour]
) -> list[Predicted]:
    """Predict one machine's cases after a MAP refinement of ``known`` on every fourth size.

    The machine's constants are refined first, then each case's. The residuals are interpolated over
    size: see `validate.published.nccl.residual_curves`. Near a switch of protocols the model is a
    mixture. `validate.published.nccl.known_sizes` combines it with `specification`, weighted by how
    well both agree with the known sizes.
    """
    thinned = [_thin(case) for case in cases]
    # Infer the graphs from known sizes only, since other sizes are still to be predicted.
    labelled = label_graphs([part for part, _ in thinned], known)
    logs = np.array([machine_logs(known, case.machine) for case in cases])
    # First one deviation for all cases of the machine, then one for each case around it.
    shared = build_own(labelled, logs, _MACHINE_SPREAD)
    machine = case_logs(shared, solve(shared))
    fitted = [
        _average_graphs(case, part, own)
        for case, part, own in zip(cases, labelled, machine, strict=True)
    ]

    curves = [
        Curve(
            (case.op, case.machine.ranks, case.machine.nodes),
            np.asarray(case.nbytes),
            fit.branch,
            _residual(case, fit, counts),
        )
        for case, fit, (_, counts) in zip(cases, fitted, thinned, strict=True)
    ]

    described = specification(cases, known, neighbours)
    at_known = [each.seconds[~counts] for each, (_, counts) in zip(described, thinned, strict=True)]
    usual = usual_step([part for part, _ in thinned], at_known)
    refined = [
        fit.seconds * factor for fit, factor in zip(fitted, corrections(curves), strict=True)
    ]
    combined = zip(described, refined, thinned, strict=True)
    return [
        replace(
            each,
            seconds=between_the_known(part, each.case, times, each.seconds, usual),
            counts=counts,
            is_calibrated=True,
        )
        for each, times, (part, counts) in combined
    ]


REGIMES: dict[str, Regime] = {"specification": specification, "calibrated": calibrated}


def _thin(case: Case) -> tuple[Case, npt.NDArray[np.bool_]]:
    """Return the case with every fourth size, and which sizes are left to count.

    A known time far above a later one is an outlier, such as a first call, and is limited to what
    is `credible`.
    """
    keep = np.arange(len(case.nbytes)) % CALIBRATION_STRIDE == 0
    sizes, times = np.asarray(case.nbytes)[keep].tolist(), np.asarray(case.times)[keep]
    return replace(case, nbytes=sizes, times=credible(times).tolist()), ~keep


@dataclass(frozen=True, slots=True)
class _Fit:
    """A case under its refined constants: the seconds and the branch used at each size."""

    seconds: FloatArray
    branch: npt.NDArray[np.int64]


def _residual(case: Case, fit: _Fit, counts: npt.NDArray[np.bool_]) -> FloatArray:
    """Return ln(measured / model) where a size was fitted on, NaN where it counts."""
    return np.where(counts, np.nan, np.log(np.asarray(case.times) / fit.seconds))


def _average_graphs(case: Case, part: Case, own: FloatArray) -> _Fit:
    """Average ln seconds over topology-search results by their posterior odds.

    The branches are taken from the most likely result.
    """
    fits = [_refine(part, own, graph) for graph in GRAPHS]
    costs = np.array([cost for cost, _, _ in fits])
    # The objective is -2 ln of the posterior. The least is subtracted so that exp cannot overflow.
    odds = np.exp((costs.min() - costs) / 2)
    log_seconds = [
        np.log(predict_mixed(replace(case, machine=machine), logs)) for _, machine, logs in fits
    ]
    _, likeliest, _ = fits[int(np.argmax(odds))]
    mean = np.average(log_seconds, axis=0, weights=odds)
    return _Fit(np.exp(mean), replace(case, machine=likeliest).work().branch)


def _refine(part: Case, own: FloatArray, graph: int) -> tuple[float, NcclMachine, FloatArray]:
    """Fit one case by MAP under one topology-search result: (objective, machine, ln theta)."""
    machine = replace(part.machine, graph=graph)
    problem = build_own([replace(part, machine=machine)], own[None, :], _CASE_SPREAD)
    x = solve(problem)
    return (
        objective(problem, x) + (_GRAPH_PRICE if graph else 0.0),
        machine,
        case_logs(problem, x)[0],
    )
