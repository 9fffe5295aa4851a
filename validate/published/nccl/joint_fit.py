"""The joint fit over many machines, and the inference of NCCL's hidden topology search."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import replace

import numpy as np

from dpsim.base.arrays import FloatArray
from dpsim.base.errors import DpsimError
from dpsim.network.libraries.nccl import BRANCHES, costs, machine_logs, seconds
from validate.published.nccl.map_fit import (
    SIGMA,
    Slot,
    build,
    build_own,
    row_params,
    solve,
    within_their_errors,
)
from validate.published.nccl.table import Case

Constants = dict[Slot, float]
MOST_ROWS = 600  # per machine in a fit
_ROUGH_GAIN = 1e-3  # gain at which a fit stops that only determines each table's graph
_SELECTING_GAIN, _FINAL_GAIN = 1e-5, 1e-6  # gains at which the selecting fits and the last one stop
_SHRINKINGS = 2
SWITCH = 0.05  # relative difference of NCCL's estimates at which one branch is surely chosen
COSTLY = 4.0  # how much less a slower branch counts, as a power of its time
GRAPHS = (0, 1)  # topology-search results that fits try (see NcclMachine.graph)
_GRAPH_RELUCTANCE = 1.05  # how much better a table must fit with another graph than the shipped one


def fit_joint(cases: Iterable[Case]) -> Constants:
    """Fit ln of every constant by (group, name), on the cases of quality ok.

    The result of NCCL's topology search is hidden: it is inferred for each table (one machine, one
    NCCL version), alternating with the constants. Raises DpsimError if there are no rows to fit on.
    """
    good = _thin([case for case in cases if case.quality == "ok"])
    if not good:
        raise DpsimError(
            "the tables to fit on must hold rows of quality ok from other machines, but none is "
            "left"
        )
    # A rough fit of the constants is enough to infer the graphs.
    first = _fit_once(good, {}, _ROUGH_GAIN)
    return _shrunk(label_graphs(good, first), first)


def _shrunk(cases: Sequence[Case], start: Mapping[Slot, float]) -> Constants:
    """Fit only the families' deviations that the cases support; all others are zero.

    Deviations within their own error are dropped and the rest is fitted again, several times: when
    one is dropped, its neighbours take over its effect.
    """
    known = _fit_once(cases, start, _SELECTING_GAIN)
    for _ in range(_SHRINKINGS):
        problem = build(cases, known)
        found = np.array([known[slot] for slot in problem.slots])
        kept = known.keys() - within_their_errors(problem, found)
        known = _fit_once(cases, known, _SELECTING_GAIN, kept)
    return _fit_once(cases, known, _FINAL_GAIN, known)


def _thin(cases: Sequence[Case]) -> list[Case]:
    """Return the cases with at most about `MOST_ROWS` rows per machine, spread over its curves.

    More rows do not increase a machine's weight; they only cost time.
    """
    rows: Counter[str] = Counter()
    for case in cases:
        rows[case.machine_name] += len(case.nbytes)
    kept = []
    for index, case in enumerate(cases):
        stride = math.ceil(rows[case.machine_name] / MOST_ROWS)
        # Curves start at different sizes, so that together they have all.
        picked = slice(min(index % stride, len(case.nbytes) - 1), None, stride)
        kept.append(replace(case, nbytes=case.nbytes[picked], times=case.times[picked]))
    return kept


def fit_without_generation(cases: Iterable[Case], left_out: str) -> Constants:
    """Run `fit_joint` on all cases except those of one `generation`, from scratch."""
    return fit_joint(case for case in cases if case.machine.generation != left_out)


def fit_without(cases: Iterable[Case], machine: str) -> Constants:
    """Run `fit_joint` on all machines except ``machine``, from scratch.

    Without a warm start, nothing of its rows can leak into the fit.
    """
    return fit_joint(case for case in cases if case.machine_name != machine)


def _fit_once(
    cases: Sequence[Case],
    start: Mapping[Slot, float],
    tolerance: float,
    kept: Container[Slot] | None = None,
) -> Constants:
    problem = build(cases, kept)
    # Slots that no earlier fit had start at their priors.
    priors = dict(zip(problem.slots, problem.prior.tolist(), strict=True))
    begin = np.array([start.get(slot, prior) for slot, prior in priors.items()])
    found = solve(problem, begin, tolerance=tolerance)
    return dict(zip(problem.slots, found.tolist(), strict=True))


def label_graphs(cases: Sequence[Case], known: Mapping[Slot, float]) -> list[Case]:
    """Return the cases, each with a result of the topology search.

    The result is the one with which the case's whole table fits best.
    """
    costs: dict[tuple[object, ...], dict[int, float]] = {}
    for case in cases:
        logs = machine_logs(known, case.machine)
        table = costs.setdefault(
            (case.machine_name, case.machine.nccl_version), dict.fromkeys(GRAPHS, 0.0)
        )
        for graph in GRAPHS:
            seen = predict_case(replace(case, machine=replace(case.machine, graph=graph)), logs)
            # The rows' part of the objective. A table is of one machine, whose rows all weigh the
            # same.
            r = np.log(seen / np.asarray(case.times)) / SIGMA
            table[graph] += float((2 * (np.sqrt(1 + r**2) - 1)).sum()) * (
                _GRAPH_RELUCTANCE if graph else 1.0
            )
    best = {table: min(found, key=found.__getitem__) for table, found in costs.items()}
    return [
        replace(
            case,
            machine=replace(case.machine, graph=best[case.machine_name, case.machine.nccl_version]),
        )
        for case in cases
    ]


def predict_case(case: Case, logs: FloatArray) -> FloatArray:
    """Return the seconds of every size of a case from its machine's constants (log)."""
    problem = build_own([case], logs[None, :], 1.0)
    return seconds(problem.work, row_params(problem, logs[None, :]))


def predict_mixed(case: Case, logs: FloatArray) -> FloatArray:
    """Return the same, averaged near a switch over the branches that NCCL rates alike.

    The mean of ln seconds over branches, weighted by (estimate / least estimate)^(-1 / SWITCH) and
    (seconds / least seconds)^-COSTLY: where NCCL rates two branches alike the curve jumps, and the
    faster branch is the likelier to have run.
    """
    # NCCL has only one way to run these, so nothing is chosen.
    if case.op in ("alltoall", "sendrecv"):
        return predict_case(case, logs)
    problem = build_own([case], logs[None, :], 1.0)
    constants = row_params(problem, logs[None, :])
    table = costs(case.machine, case.op, case.element_bytes, np.asarray(case.nbytes))
    # (branches, sizes), like the times below.
    estimates = np.stack(list(table.values()))
    times = []
    for algorithm, protocol in table:
        branch = np.full(len(case.nbytes), BRANCHES.index(f"{algorithm}/{protocol}"))
        times.append(seconds(replace(problem.work, branch=branch), constants))
    taken = np.stack(times)
    rated = (estimates / estimates.min(axis=0)) ** (-1 / SWITCH)
    weights = rated * (taken / taken.min(axis=0)) ** -COSTLY
    return np.asarray(np.exp(np.average(np.log(taken), axis=0, weights=weights)))
