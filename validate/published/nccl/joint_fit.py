"""The joint fit over many machines, and what it makes of NCCL's hidden topology search."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

import numpy as np

from dpsim.base.arrays import FloatArray
from dpsim.base.errors import DpsimError
from dpsim.network.libraries.nccl import machine_logs, seconds
from validate.published.nccl.map_fit import SIGMA, Slot, build, build_own, row_params, solve
from validate.published.nccl.table import Case

Constants = dict[Slot, float]
GRAPHS = (0, 1)  # topology-search results that fits try (see NcclMachine.graph)
_GRAPH_RELUCTANCE = 1.05  # how much better a table must fit with another graph than the shipped one


def fit_joint(cases: Iterable[Case]) -> Constants:
    """Ln of every constant by (group, name), fitted on the cases of quality ok.

    What NCCL's topology search found is hidden: it is inferred for each table (one machine, one
    NCCL version), by turns with the constants. Raises DpsimError where nothing is left to fit on.
    """
    good = [case for case in cases if case.quality == "ok"]
    if not good:
        raise DpsimError(
            "the tables to fit on must hold rows of quality ok from other machines, but none is "
            "left"
        )
    first = _fit_once(good, {})
    return _fit_once(label_graphs(good, first), first)


def fit_without(cases: Iterable[Case], machine: str) -> Constants:
    """`fit_joint` on all machines but ``machine``, from scratch.

    Nothing of its rows can leak through a warm start.
    """
    return fit_joint(case for case in cases if case.machine_name != machine)


def _fit_once(cases: Sequence[Case], start: Mapping[Slot, float]) -> Constants:
    problem = build(cases)
    begin = np.array(
        [start.get(slot, prior) for slot, prior in zip(problem.slots, problem.prior, strict=True)]
    )
    return dict(zip(problem.slots, solve(problem, begin).tolist(), strict=True))


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
