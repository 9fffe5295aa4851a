"""The joint fit over many machines, and what it makes of NCCL's hidden topology search."""

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
MOST_ROWS = 600  # of a machine, in a fit
_ROUGHLY = 1e-3  # the gain at which a fit stops that only says which graph a table had
_NEARLY, _FINELY = 1e-5, 1e-6  # those of a fit which says what can go, and of the last
_SHRINKINGS = 2
SWITCH = 0.05  # how far apart NCCL's estimates are for one branch to be chosen for sure
COSTLY = 4.0  # how much less a branch counts that would take longer, as a power of its time
GRAPHS = (0, 1)  # topology-search results that fits try (see NcclMachine.graph)
_GRAPH_RELUCTANCE = 1.05  # how much better a table must fit with another graph than the shipped one


def fit_joint(cases: Iterable[Case]) -> Constants:
    """Ln of every constant by (group, name), fitted on the cases of quality ok.

    What NCCL's topology search found is hidden: it is inferred for each table (one machine, one
    NCCL version), by turns with the constants. Raises DpsimError where nothing is left to fit on.
    """
    good = _thinned([case for case in cases if case.quality == "ok"])
    if not good:
        raise DpsimError(
            "the tables to fit on must hold rows of quality ok from other machines, but none is "
            "left"
        )
    # Constants tell the graphs, and graphs the constants: a rough fit is enough for the former.
    first = _fit_once(good, {}, _ROUGHLY)
    return _shrunk(label_graphs(good, first), first)


def _shrunk(cases: Sequence[Case], start: Mapping[Slot, float]) -> Constants:
    """The fit with the deviations of families that the cases ask for; all others are none.

    What lies within its own error goes, and the rest is fitted anew, some times over: where one
    goes, its neighbours take over what it stood for.
    """
    known = _fit_once(cases, start, _NEARLY)
    for _ in range(_SHRINKINGS):
        problem = build(cases, known)
        found = np.array([known[slot] for slot in problem.slots])
        kept = known.keys() - within_their_errors(problem, found)
        known = _fit_once(cases, known, _NEARLY, kept)
    return _fit_once(cases, known, _FINELY, known)


def _thinned(cases: Sequence[Case]) -> list[Case]:
    """The cases with at most about `MOST_ROWS` rows of each machine, spread over its curves.

    A machine weighs no more for having more: its other rows only cost time.
    """
    rows: Counter[str] = Counter()
    for case in cases:
        rows[case.machine_name] += len(case.nbytes)
    kept = []
    for place, case in enumerate(cases):
        stride = math.ceil(rows[case.machine_name] / MOST_ROWS)
        # Curves begin at sizes of their own, so that together they have all.
        picked = slice(min(place % stride, len(case.nbytes) - 1), None, stride)
        kept.append(replace(case, nbytes=case.nbytes[picked], times=case.times[picked]))
    return kept


def fit_without_generation(cases: Iterable[Case], left_out: str) -> Constants:
    """`fit_joint` on all but the cases of one `generation`, from scratch."""
    return fit_joint(case for case in cases if case.machine.generation != left_out)


def fit_without(cases: Iterable[Case], machine: str) -> Constants:
    """`fit_joint` on all machines but ``machine``, from scratch.

    Nothing of its rows can leak through a warm start.
    """
    return fit_joint(case for case in cases if case.machine_name != machine)


def _fit_once(
    cases: Sequence[Case],
    start: Mapping[Slot, float],
    tolerance: float,
    kept: Container[Slot] | None = None,
) -> Constants:
    problem = build(cases, kept)
    # Slots that no earlier fit had begin at their priors.
    priors = dict(zip(problem.slots, problem.prior.tolist(), strict=True))
    begin = np.array([start.get(slot, prior) for slot, prior in priors.items()])
    found = solve(problem, begin, tolerance=tolerance)
    return dict(zip(problem.slots, found.tolist(), strict=True))


def label_graphs(cases: Sequence[Case], known: Mapping[Slot, float]) -> list[Case]:
    """The cases, each with a result of the topology search.

    It is the one under which the whole table that the case belongs to fits best.
    """
    costs: dict[tuple[object, ...], dict[int, float]] = {}
    for case in cases:
        logs = machine_logs(known, case.machine)
        table = costs.setdefault(
            (case.machine_name, case.machine.nccl_version), dict.fromkeys(GRAPHS, 0.0)
        )
        for graph in GRAPHS:
            seen = predict_case(replace(case, machine=replace(case.machine, graph=graph)), logs)
            # The rows' part of the objective. A table is one machine's, whose rows all weigh alike.
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
    """Seconds for every size of a case from its machine's constants (log)."""
    problem = build_own([case], logs[None, :], 1.0)
    return seconds(problem.work, row_params(problem, logs[None, :]))


def predict_mixed(case: Case, logs: FloatArray) -> FloatArray:
    """The same, where the chooser may err: near a switch all branches that NCCL rates alike count.

    The mean of ln seconds over branches, weighted by (estimate / least estimate)^(-1 / SWITCH) and
    (seconds / least seconds)^-COSTLY: between branches rated alike, that is where the curve jumps,
    the quicker is the likelier to have run.
    """
    # NCCL has but one way for these: nothing is chosen.
    if case.op in ("alltoall", "sendrecv"):
        return predict_case(case, logs)
    problem = build_own([case], logs[None, :], 1.0)
    constants = row_params(problem, logs[None, :])
    table = costs(case.machine, case.op, case.element_bytes, np.asarray(case.nbytes))
    # (branches, sizes), as the times below.
    estimates = np.stack(list(table.values()))
    times = []
    for algorithm, protocol in table:
        branch = np.full(len(case.nbytes), BRANCHES.index(f"{algorithm}/{protocol}"))
        times.append(seconds(replace(problem.work, branch=branch), constants))
    taken = np.stack(times)
    rated = (estimates / estimates.min(axis=0)) ** (-1 / SWITCH)
    weights = rated * (taken / taken.min(axis=0)) ** -COSTLY
    return np.asarray(np.exp(np.average(np.log(taken), axis=0, weights=weights)))
