"""The two regimes: a machine is described alone, or every fourth size of it is measured."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
from scipy.interpolate import PchipInterpolator

from dpsim.base.arrays import FloatArray
from dpsim.network.libraries.nccl import Kin, NcclMachine, kin_correction, machine_logs
from validate.published.nccl.joint_fit import (
    GRAPHS,
    label_graphs,
    predict_case,
    predict_mixed,
)
from validate.published.nccl.map_fit import Slot, build_own, case_logs, objective, solve
from validate.published.nccl.residual_curves import Curve, corrections
from validate.published.nccl.table import Case

CALIBRATION_STRIDE = 4
SLACK = 0.1  # by which a time may exceed that of a larger size
# How far a machine, then a single case, may move from the constants before it, in units of the
# families' spread.
_MACHINE_SPREAD, _CASE_SPREAD = 1.0, 1.0
# How much the smooth curve through the known sizes counts at most, at which distance from it (ln)
# half as much, within how many octaves between two known sizes, and from how many of these on.
_SMOOTH, _APART, _GAP, _FEWEST = 0.7, 0.05, 4.5, 2
_GRAPH_PRICE = 1.0  # what leaving the shipped topology-search result costs in a calibration


@dataclass(frozen=True, slots=True)
class Predicted:
    """A case with seconds for each of its sizes, and which of them may count.

    Those count that nothing was fitted on. ``kin`` are measured machines that corrected it.
    """

    case: Case
    seconds: FloatArray
    counts: npt.NDArray[np.bool_]
    kin: tuple[str, ...] = ()


Regime = Callable[[Sequence[Case], Mapping[Slot, float], Sequence[Kin]], list[Predicted]]


def specification(
    cases: Sequence[Case], known: Mapping[Slot, float], kin: Sequence[Kin]
) -> list[Predicted]:
    """Each case from its description, ``known`` and ``kin`` alone."""
    predicted = []
    for case in cases:
        corrected = kin_correction(case.machine, case.op, case.element_bytes, known, kin)
        modelled = predict_case(case, machine_logs(known, case.machine))
        times = modelled * corrected.factor(np.asarray(case.nbytes))
        counts = np.ones(len(times), dtype=bool)
        predicted.append(Predicted(case, times, counts, corrected.names))
    return predicted


def calibrated(
    cases: Sequence[Case], known: Mapping[Slot, float], kin: Sequence[Kin]
) -> list[Predicted]:
    """One machine's cases after a MAP refinement of ``known`` on every fourth size.

    The machine's constants are refined first, then each case's. What that leaves is interpolated
    over size: see `validate.published.nccl.residual_curves`. Near a switch of protocols the model
    is a mixture. Where it bends far from a smooth curve through the known sizes, that curve counts
    too, and no size takes longer than a larger known one, but for `SLACK`.
    """
    thinned = [_thin(case) for case in cases]
    # By the known sizes alone: the others are still to be predicted.
    labelled = label_graphs([part for part, _ in thinned], known)
    logs = np.array([machine_logs(known, case.machine) for case in cases])
    # First one deviation for all cases of the machine, then one for each case around it.
    shared = build_own(labelled, logs, _MACHINE_SPREAD)
    machine = case_logs(shared, solve(shared))
    fitted = [
        _refined(case, part, own) for case, part, own in zip(cases, labelled, machine, strict=True)
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

    together = zip(cases, fitted, corrections(curves), thinned, strict=True)
    return [
        Predicted(case, _by_the_known(fit.seconds * factor, part, case), counts)
        for case, fit, factor, (part, counts) in together
    ]


REGIMES: dict[str, Regime] = {"specification": specification, "calibrated": calibrated}


def _thin(case: Case) -> tuple[Case, npt.NDArray[np.bool_]]:
    """The case's every fourth size, and which sizes that leaves to be counted.

    A known time that is above a later one by more than `SLACK` is an outlier, such as a first call,
    and counts as that much.
    """
    keep = np.arange(len(case.nbytes)) % CALIBRATION_STRIDE == 0
    sizes, times = np.asarray(case.nbytes)[keep].tolist(), np.asarray(case.times)[keep]
    credible = np.minimum(times, (1 + SLACK) * _least_from(times))
    return replace(case, nbytes=sizes, times=credible.tolist()), ~keep


def _least_from(times: FloatArray) -> FloatArray:
    """The least of each time and all after it."""
    return np.asarray(np.minimum.accumulate(times[::-1])[::-1])


def _by_the_known(seconds: FloatArray, known: Case, case: Case) -> FloatArray:
    """``seconds`` of the case's sizes, as far as the ``known`` ones around them bear them out."""
    return _between_the_known(towards_smooth(seconds, known, case), known, case)


def towards_smooth(seconds: FloatArray, known: Case, case: Case) -> FloatArray:
    """``seconds``, drawn towards a smooth curve through the known sizes.

    The further the two are apart, the likelier the model switches at the wrong size between two
    known ones: a distance d counts by `_SMOOTH` d / (d + `_APART`). Where sizes are known further
    apart than `_GAP`, the curve says nothing.
    """
    if len(known.nbytes) < _FEWEST:
        return seconds
    at, ends = np.log2(case.nbytes), np.log2(known.nbytes)
    inside = (at > ends[0]) & (at < ends[-1])
    after = np.clip(np.searchsorted(ends, at), 1, len(ends) - 1)
    near = inside & (ends[after] - ends[after - 1] <= _GAP)
    apart = smooth_log_seconds(known, np.clip(case.nbytes, known.nbytes[0], known.nbytes[-1]))
    apart -= np.log(seconds)
    weight = _SMOOTH * np.abs(apart) / (np.abs(apart) + _APART)
    return np.asarray(seconds * np.exp(np.where(near, weight * apart, 0.0)))


def smooth_log_seconds(known: Case, nbytes: FloatArray) -> FloatArray:
    """Ln seconds between the ``known`` sizes, the mean of two curves.

    A monotone cubic of ln over ln bends where protocols switch; straight lines of seconds over
    bytes are what one protocol takes, a latency and a rate.
    """
    cubic = PchipInterpolator(np.log2(known.nbytes), np.log(known.times))(np.log2(nbytes))
    lines = np.log(np.interp(nbytes, known.nbytes, known.times))
    return np.asarray((cubic + lines) / 2)


def _between_the_known(seconds: FloatArray, known: Case, case: Case) -> FloatArray:
    """``seconds`` of the case's sizes, none beyond what the known sizes around it take.

    More bytes take no less time, but for `SLACK`: a protocol that the model prices too high between
    two known sizes is not what ran there.
    """
    sizes, times = np.asarray(case.nbytes), np.asarray(known.times)
    after = np.searchsorted(known.nbytes, sizes)
    # Beyond the largest known size nothing bounds a time from above, before the smallest nothing
    # from below.
    most = np.append((1 + SLACK) * _least_from(times), np.inf)[after]
    before = np.searchsorted(known.nbytes, sizes, side="right") - 1
    least = np.append(np.maximum.accumulate(times), 0.0)[before] / (1 + SLACK)
    return np.asarray(np.clip(seconds, np.minimum(least, most), most))


@dataclass(frozen=True, slots=True)
class _Fit:
    """A case under its refined constants: seconds and the branch that runs, for each size."""

    seconds: FloatArray
    branch: npt.NDArray[np.int64]


def _residual(case: Case, fit: _Fit, counts: npt.NDArray[np.bool_]) -> FloatArray:
    """Ln(measured / model) where a size was fitted on, NaN where it counts."""
    return np.where(counts, np.nan, np.log(np.asarray(case.times) / fit.seconds))


def _refined(case: Case, part: Case, own: FloatArray) -> _Fit:
    """The mean of ln seconds over topology-search results by their posterior odds.

    The branches are those of the likeliest.
    """
    fits = [_refine(part, own, graph) for graph in GRAPHS]
    costs = np.array([cost for cost, _, _ in fits])
    # The objective is -2 ln of the posterior. Less the least of them, so that exp cannot overflow.
    odds = np.exp((costs.min() - costs) / 2)
    log_seconds = [
        np.log(predict_mixed(replace(case, machine=machine), logs)) for _, machine, logs in fits
    ]
    _, likeliest, _ = fits[int(np.argmax(odds))]
    mean = np.average(log_seconds, axis=0, weights=odds)
    return _Fit(np.exp(mean), replace(case, machine=likeliest).work().branch)


def _refine(part: Case, own: FloatArray, graph: int) -> tuple[float, NcclMachine, FloatArray]:
    """MAP of one case under one topology-search result: (objective, machine, ln theta)."""
    machine = replace(part.machine, graph=graph)
    problem = build_own([replace(part, machine=machine)], own[None, :], _CASE_SPREAD)
    x = solve(problem)
    return (
        objective(problem, x) + (_GRAPH_PRICE if graph else 0.0),
        machine,
        case_logs(problem, x)[0],
    )
