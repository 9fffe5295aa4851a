"""Maximum-a-posteriori fit of the constants.

Soft-L1 on log time ratios, Gaussian priors on log constants.

    minimise  sum_rows w softl1((ln t_model - ln t_measured) / sigma) + sum_k ((x_k - m_k) / s_k)^2

Each machine weighs at most as much as `MACHINE_ROWS` rows, so that a machine with thousands of rows
does not dominate the others.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Container, Iterator, Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property

import numpy as np
import numpy.typing as npt
from scipy.sparse import csr_array

from dpsim.base.arrays import FloatArray
from dpsim.network.libraries.nccl import (
    COMMON,
    NAMES,
    NVMESH,
    OWN_ONLY,
    PARAMS,
    PCIE,
    Facts,
    NcclMachine,
    Param,
    Picked,
    Work,
    facts_of,
    level_keys,
    physical,
    prior_shift,
    seconds,
)
from validate.published.nccl.table import Case, concatenate

Slot = tuple[str, str]
SIGMA = 0.05  # of ln time: residuals well above it count linearly, no longer squared
MACHINE_ROWS = 100.0
CENTRE_SPREAD = 0.7  # ln 2: common centres are assumed to be right within a factor of two
STEP = 1e-4  # of ln theta, for forward differences
TOLERANCE = 1e-4
_MOST_ITERATIONS = 300
# Small problems are bound by numpy's call overhead, large ones by their rows.
_ROWS_AT_ONCE = 16_000
# A machine's own rows may move its own constants further than the population's spread.
OWN_WIDER = 5.0
MACHINE_KEY = "machine: "
_DROPPED_ERROR_FRACTION = 0.9  # fraction of its error: smaller deviations of a family are dropped


@dataclass
class Problem:
    """Rows, and for each (case, constant) the slots of x whose sum is its logarithm."""

    cases: Sequence[Case]
    facts: Facts
    work: Work
    # (rows,): ln seconds, the case of each, and the root of its weight.
    logt: FloatArray
    owner: npt.NDArray[np.int64]
    weight: FloatArray
    # (slots,): the unknowns and their priors; ``loose`` says how heavy a prior's tail is.
    slots: list[Slot]
    prior: FloatArray
    spread: FloatArray
    # (levels, cases, constants): the slots to add up; (cases, constants): the base they add to.
    levels: npt.NDArray[np.int64]
    base: FloatArray
    loose: npt.NDArray[np.int64]

    @cached_property
    def trials(self) -> list[_Trial]:
        """The batches of constants for finite differences: the same at every step of a fit."""
        return [*_trials(self)]


def build(cases: Sequence[Case], kept: Container[Slot] | None = None) -> Problem:
    """Build the joint problem of all machines: common values, and deviations by family and machine.

    Slots not in ``kept`` stay at their priors; None keeps all.
    """
    wanted: set[Slot] = set()
    for case in cases:
        for p in PARAMS:
            wanted |= {(key, p.name) for key in _keys(p, case) if key}
    slots = sorted(slot for slot in wanted if kept is None or slot in kept)
    by_name = {p.name: p for p in PARAMS}
    prior = np.array([_prior(key, by_name[name]) for key, name in slots])
    spread = np.array([_spread(key, by_name[name]) for key, name in slots])
    base = np.array([_at_priors(case, set(slots)) for case in cases])
    return _problem(cases, slots, prior, spread, _levels(cases, slots), base)


def _at_priors(case: Case, slots: Container[Slot]) -> list[float]:
    """Return, for each constant of a case, the sum of its priors that have no slot."""
    out = []
    for p in PARAMS:
        fixed = [key for key in _keys(p, case) if key and (key, p.name) not in slots]
        out.append(sum(prior_shift(key, p.name) for key in fixed if key != COMMON))
    return out


def _levels(cases: Sequence[Case], slots: list[Slot]) -> npt.NDArray[np.int64]:
    """Return the slot of each (level, case, constant); len(slots) where there is none."""
    index = {slot: i for i, slot in enumerate(slots)}
    levels = np.full((4, len(cases), len(PARAMS)), len(slots), dtype=np.int64)
    for i, case in enumerate(cases):
        for j, p in enumerate(PARAMS):
            for level, key in enumerate(_keys(p, case)):
                levels[level, i, j] = index.get((key, p.name), len(slots))
    return levels


def _prior(key: str, p: Param) -> float:
    return float(np.log(p.centre)) if key == COMMON else prior_shift(key, p.name)


def _keys(p: Param, case: Case) -> tuple[str, str, str, str]:
    """Return the levels of a constant: all machines, kind, generation, this machine."""
    # A single node has no network, and the network hides the inside of several nodes.
    of_network = p.name.startswith("net")
    is_own = p.name == "launch" or of_network == (case.machine.nodes > 1)
    if p.name == "host_share":
        is_own = case.machine.bus.staged
    own = MACHINE_KEY + case.machine_name if p.level == "machine" and is_own else ""
    common = "" if p.name in OWN_ONLY else COMMON
    return (common, *level_keys(p, case.machine), own)


def _spread(key: str, p: Param) -> float:
    if key == COMMON:
        return p.spread / 2 if p.level == "net" else min(CENTRE_SPREAD, 2 * p.spread)
    # The centres are NVLink's: fabrics of another kind may deviate more.
    return p.spread * 3.0 if key in ("pcie", "xgmi") else p.spread


def build_own(cases: Sequence[Case], base: FloatArray, spread_scale: float) -> Problem:
    """Build a problem with one deviation per constant around `base` (cases x constants, log).

    Used in the calibrated regime.
    """
    slots: list[Slot] = [("own", n) for n in NAMES]
    widths = [p.spread * OWN_WIDER if p.name in OWN_ONLY else p.spread for p in PARAMS]
    spread = np.array(widths) * spread_scale
    levels = np.tile(np.arange(len(NAMES)), (1, len(cases), 1))
    return _problem(cases, slots, np.zeros(len(NAMES)), spread, levels, base)


def _problem(
    cases: Sequence[Case],
    slots: list[Slot],
    prior: FloatArray,
    spread: FloatArray,
    levels: npt.NDArray[np.int64],
    base: FloatArray,
) -> Problem:
    owner = np.concatenate([np.full(len(c.nbytes), i) for i, c in enumerate(cases)])
    logt = np.log(np.concatenate([np.asarray(c.times) for c in cases]))
    counts: Counter[str] = Counter()
    for case in cases:
        counts[case.machine_name] += len(case.nbytes)
    # Weights are inside the squares: with the root, a machine's rows sum to MACHINE_ROWS.
    shares = [min(1.0, MACHINE_ROWS / counts[case.machine_name]) for case in cases]
    per_case = np.sqrt(np.array(shares))
    return Problem(
        cases,
        facts_of([case.machine for case in cases]),
        concatenate(c.work() for c in cases),
        logt,
        owner,
        per_case[owner],
        slots,
        prior,
        spread,
        levels,
        base,
        np.array([_looseness(*s) for s in slots]),
    )


def _looseness(key: str, name: str) -> int:
    """Return how heavy the tail of a parameter's prior is.

    0 Gaussian, 1 soft-L1 (a machine's network), 2 Cauchy (its launch, whose floor is not stated,
    and its host's memory: some hosts are several times slower than others of the same description).
    """
    if name not in OWN_ONLY or key == COMMON:
        return 0
    return 2 if name == "host_share" or (key == "own" and name == "launch") else 1


def case_logs(problem: Problem, x: FloatArray) -> FloatArray:
    """Return ln theta, cases x constants."""
    # Levels without a constant have the slot number of this zero, and so add nothing.
    padded = np.append(x, 0.0)
    result: FloatArray = problem.base + padded[problem.levels].sum(axis=0)
    return result


def row_params(problem: Problem, logs: FloatArray) -> Picked:
    """Return the constants for `nccl_cost.seconds`, one value per row."""
    return Picked(physical(logs, problem.facts), problem.owner)


def log_times(problem: Problem, logs: FloatArray) -> FloatArray:
    """Return ln of the model's seconds for every row."""
    result: FloatArray = np.log(seconds(problem.work, row_params(problem, logs)))
    return result


def _slopes(problem: Problem, logs: FloatArray, at: FloatArray) -> FloatArray:
    """Return d ln t / d ln theta, rows x constants, by forward differences."""
    out = np.zeros((len(at), len(NAMES)))
    for trial in problem.trials:
        moved = np.tile(logs, (len(trial.constants), 1, 1))
        moved[np.arange(len(moved)), :, trial.constants] += STEP
        logt = log_times(trial.problem, moved.reshape(-1, len(NAMES)))
        steps = logt.reshape(len(moved), -1) - at[trial.rows]
        out[np.ix_(trial.rows, trial.constants)] = steps.T / STEP
    return out


@dataclass(frozen=True)
class _Trial:
    """Constants to vary one by one, and a problem with a copy of the rows for each.

    ``rows`` are the numbers of the rows that they affect.
    """

    constants: npt.NDArray[np.int64]
    rows: npt.NDArray[np.int64]
    problem: Problem


def _trials(problem: Problem) -> Iterator[_Trial]:
    """Yield all constants, in batches that are efficient to compute together."""
    by_touch: dict[str, list[int]] = {}
    for constant, p in enumerate(PARAMS):
        by_touch.setdefault(_touches(p), []).append(constant)
    for which, constants in by_touch.items():
        touched = np.array([_TOUCHED[which](case.machine) for case in problem.cases])
        rows = np.flatnonzero(touched[problem.owner])
        if len(rows):
            at_once = max(_ROWS_AT_ONCE // len(rows), 1)
            for first in range(0, len(constants), at_once):
                some = np.array(constants[first : first + at_once])
                yield _Trial(some, rows, _copies(problem, rows, len(some)))


def _copies(problem: Problem, rows: npt.NDArray[np.int64], count: int) -> Problem:
    """Return these rows ``count`` times, each copy with its own machines."""
    place = np.tile(np.arange(len(problem.cases)), count)
    machines = Facts(**{name: getattr(problem.facts, name)[place] for name in _fields_of(Facts)})
    again = np.tile(rows, count)
    work = Work(**{name: getattr(problem.work, name)[again] for name in _fields_of(Work)})
    of_copy = np.repeat(np.arange(count) * len(problem.cases), len(rows))
    return replace(problem, facts=machines, work=work, owner=problem.owner[again] + of_copy)


def _fields_of(kind: type[Facts | Work]) -> list[str]:
    return [each.name for each in fields(kind)]


# The machines that a constant can affect; varying it on others is wasted.
_BUS = frozenset({"staged", "uplink", "sockets", "duplex", "host_share"})
_TOUCHED: dict[str, Callable[[NcclMachine], bool]] = {
    "all": lambda machine: True,
    "network": lambda machine: machine.nodes > 1,
    "bus": lambda machine: machine.intra == PCIE,
    "floor": lambda machine: machine.launch != "default",
}


def _touches(p: Param) -> str:
    if p.name in _BUS:
        return "bus"
    if p.name.startswith("net"):
        return "network"
    return "floor" if p.level == "floor" else "all"


def _spread_out(problem: Problem, slopes: FloatArray) -> csr_array:
    """Apply the chain rule: slopes by constant to the sparse Jacobian by slot."""
    size, cases, levels = len(problem.slots), len(slopes), len(problem.levels)
    # The logarithm of a constant is the sum of its levels, so the slope by the constant is the
    # slope by each of its slots.
    columns = problem.levels[:, problem.owner, :].ravel()
    row_of_each = np.repeat(np.arange(cases), len(NAMES))
    rows = np.tile(row_of_each, levels)
    values = np.tile(slopes.ravel(), levels)
    # A column beyond the slots is a level at which a machine has no constants.
    keep = (columns < size) & (values != 0)
    entries = (values[keep], (rows[keep], columns[keep]))
    return csr_array(entries, shape=(cases, size))


def objective(problem: Problem, x: FloatArray) -> float:
    """Return soft-L1 over rows, Gaussian priors for families, heavy-tailed ones for machines."""
    rows = (log_times(problem, case_logs(problem, x)) - problem.logt) / SIGMA
    data = _soft_l1(rows) * problem.weight**2
    z = (x - problem.prior) / problem.spread
    tails = [problem.loose == 2, problem.loose == 1]
    prior = np.select(tails, [np.log1p(z**2), _soft_l1(z)], z**2)
    return float(data.sum() + prior.sum())


def _soft_l1(z: FloatArray) -> FloatArray:
    """Return about z^2 for small residuals, 2 |z| for large ones."""
    return np.asarray(2 * (np.sqrt(1 + z**2) - 1))


def solve(
    problem: Problem,
    start: FloatArray | None = None,
    tolerance: float = TOLERANCE,
) -> FloatArray:
    """Minimise by Levenberg-Marquardt on iteratively reweighted squares.

    Stops when the gain falls below ``tolerance`` of the cost.
    """
    x = (problem.prior if start is None else start).copy()
    cost, damping = objective(problem, x), 1e-3
    for _ in range(_MOST_ITERATIONS):
        logs = case_logs(problem, x)
        at = log_times(problem, logs)
        r = (at - problem.logt) / SIGMA
        # A square with this weight has the slope of the soft-L1 loss at this residual.
        w = problem.weight**2 / np.sqrt(1 + r**2)
        jac = _spread_out(problem, _slopes(problem, logs, at)) / SIGMA
        pull = _pull(problem, x)
        normal = csr_array(jac.T @ jac.multiply(w[:, None])).toarray() + np.diag(pull)
        gradient = jac.T @ (w * r) + pull * (x - problem.prior)
        before = cost
        for _ in range(8):
            # Damped by the diagonal (Marquardt), since slots differ by magnitudes in curvature.
            damped = normal + damping * np.diag(np.diag(normal))
            step = np.linalg.solve(damped, -gradient)
            # At most a factor of e at a time: beyond that the model is not linear.
            trial = x + np.clip(step, -1.0, 1.0)
            value = objective(problem, trial)
            if np.isfinite(value) and value < cost:
                x, cost, damping = trial, value, damping / 5
                break
            damping *= 6
        if before - cost < tolerance * before:
            break
    return x


def _pull(problem: Problem, x: FloatArray) -> FloatArray:
    """Return the weight of each slot's prior as a square: less where a heavy tail reduces it."""
    z = (x - problem.prior) / problem.spread
    cauchy = 1 / (1 + z**2)
    soft_l1 = 1 / np.sqrt(1 + z**2)
    pull = np.select([problem.loose == 2, problem.loose == 1], [cauchy, soft_l1], 1.0)
    return np.asarray(pull / problem.spread**2)


def within_their_errors(problem: Problem, x: FloatArray) -> set[Slot]:
    """Return the families' deviations that lie within their error of their priors.

    NVLink generations keep a constant of their own all or none: their common value is used for the
    next generation.
    """
    near = np.abs(x - problem.prior) < _DROPPED_ERROR_FRACTION * standard_errors(problem, x)
    slots = {
        slot
        for slot, is_near in zip(problem.slots, near, strict=True)
        if is_near and slot[0] != COMMON and not slot[0].startswith(MACHINE_KEY)
    }
    apart = {name for key, name in set(problem.slots) - slots if _is_generation(key)}
    return {(key, name) for key, name in slots if not (_is_generation(key) and name in apart)}


def _is_generation(key: str) -> bool:
    # Volta was measured only in meshes, whose constants cover both.
    return key.startswith("nvlink-") and key not in (NVMESH, "nvlink-volta")


def standard_errors(problem: Problem, x: FloatArray) -> FloatArray:
    """Return posterior standard deviations of x (log), from the curvature at the optimum."""
    logs = case_logs(problem, x)
    at = log_times(problem, logs)
    jacobian = _spread_out(problem, _slopes(problem, logs, at)) / SIGMA
    # Outliers weigh less: soft-L1 weights a row by the slope of its loss.
    weight = problem.weight**2 / np.sqrt(1 + ((at - problem.logt) / SIGMA) ** 2)
    of_rows = csr_array(jacobian.T @ jacobian.multiply(weight[:, None])).toarray()
    # All priors count as Gaussian here, even those with heavier tails.
    curvature = of_rows + np.diag(1 / problem.spread**2)
    result: FloatArray = np.sqrt(np.diag(np.linalg.inv(curvature)))
    return result
