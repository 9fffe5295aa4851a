"""Time of NCCL's collectives on a described machine.

NCCL's own choice gives the algorithm and protocol, the fitted costs give their time. Sizes follow
nccl-tests: the larger of a rank's send and receive buffers, in bytes.

Costs and NCCL's estimates are valid within the tables. Outside, they may disagree by more than any
table shows, so two bounds apply.

First, no size takes longer than a larger one: at none of 663 sizes that two curves of a machine
share did both fall by more than 5 % when the bytes doubled. Second, NCCL's choice takes at most
`_WORST` times the best choice, as in all rows of the tables. Chains over nodes are excluded,
because NCCL's estimate ignores their length.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from dpsim.base.arrays import FloatArray, IntArray
from dpsim.base.errors import DpsimError, UnknownNameError
from dpsim.network.libraries.nccl.assembly import (
    Known,
    level_keys,
    machine_logs,
    shipped_constants,
)
from dpsim.network.libraries.nccl.cost import BRANCHES, OPS, Picked, Work, seconds
from dpsim.network.libraries.nccl.machine import NcclMachine
from dpsim.network.libraries.nccl.parameters import COMMON, PARAMS
from dpsim.network.libraries.nccl.physical_values import facts_of, physical
from dpsim.network.libraries.nccl.selection import CHAINS, choose, costs

if TYPE_CHECKING:
    from dpsim.network.libraries.nccl.neighbours import Correction, Modelled, Neighbour


_LARGER = np.exp2(np.arange(0, 40, 1 / 8))  # bytes
_WORST = 1.5


@dataclass(frozen=True, slots=True, eq=False)
class Prediction:
    """Seconds for each size, and the algorithm and protocol that run.

    ``neighbours`` are the measured machines whose residuals corrected the seconds.
    """

    seconds: FloatArray
    algorithm: tuple[str, ...]
    protocol: tuple[str, ...]
    neighbours: tuple[str, ...] = ()


def predict(
    machine: NcclMachine,
    op: str,
    element_bytes: int,
    nbytes: npt.ArrayLike,
    known: Known | None = None,
    neighbours: Sequence[Neighbour] | None = None,
) -> Prediction:
    """Predict operation ``op`` (`OPS`) for each size of ``nbytes``.

    ``known`` replaces the shipped constants, and ``neighbours`` the shipped ones, which are used
    only with the shipped constants. One rank takes no time. Raises DpsimError for an unknown
    operation and for sizes that are not above 0.
    """
    if op not in OPS:
        raise UnknownNameError("NCCL operation", op, OPS)
    sizes = np.atleast_1d(np.asarray(nbytes, dtype=np.float64))
    if (sizes <= 0).any():
        raise DpsimError(f"nbytes must be above 0, but got {sizes.min():g}")
    if machine.ranks == 1:
        return Prediction(np.zeros_like(sizes), ("none",) * len(sizes), ("none",) * len(sizes))
    if neighbours is None and known is not None:
        neighbours = ()
    corrected = correction_of(machine, op, element_bytes, neighbours)
    work = work_for(machine, op, element_bytes, sizes)
    times = _bounded(work, machine, known, corrected)
    if known is None and neighbours is None:
        least = _shipped_least(machine, op, element_bytes)
    else:
        least = _least_from(machine, op, element_bytes, known, corrected)
    next_larger = np.searchsorted(_LARGER, sizes, side="right")
    held = np.minimum(times, np.append(least, np.inf)[next_larger])
    algorithms, protocols = zip(*(BRANCHES[index].split("/") for index in work.branch), strict=True)
    return Prediction(held, algorithms, protocols, corrected.names)


def _bounded(
    work: Work, machine: NcclMachine, known: Known | None, corrected: Correction
) -> FloatArray:
    """Return the seconds of NCCL's choice, at most `_WORST` times the best choice's."""
    sizes, op = work.nbytes, OPS[work.op[0]]
    others = _may_run(machine, op, bool(work.one_byte[0]))
    # Time NCCL's choice and all possible ones in one go; the choice comes first.
    branches = np.concatenate([work.branch, np.repeat(others, len(sizes))])
    every = work.times(len(others) + 1, branches)
    rows = Picked(machine_constants(machine, known), np.zeros(len(branches), dtype=np.int64))
    taken = seconds(every, rows).reshape(-1, len(sizes)) * corrected.factor(sizes)
    return np.asarray(np.minimum(taken[0], _WORST * taken.min(axis=0)))


@lru_cache(maxsize=1024)
def _may_run(machine: NcclMachine, op: str, one_byte: bool) -> IntArray:
    """Return the branches that bound NCCL's choice."""
    is_long_chain = op in CHAINS and machine.nodes > 1
    if op in ("alltoall", "sendrecv") or is_long_chain:
        return np.zeros(0, dtype=np.int64)
    table = costs(machine, op, 1 if one_byte else 2, np.ones(1))
    return np.array([BRANCHES.index("/".join(choice)) for choice in table])


def _least_from(
    machine: NcclMachine,
    op: str,
    element_bytes: int,
    known: Known | None,
    corrected: Correction,
) -> FloatArray:
    """Return for each size of `_LARGER` the least seconds of it and all larger sizes."""
    work = work_for(machine, op, element_bytes, _LARGER)
    times = _bounded(work, machine, known, corrected)
    return np.asarray(np.minimum.accumulate(times[::-1])[::-1])


@lru_cache(maxsize=1024)
def _shipped_least(machine: NcclMachine, op: str, element_bytes: int) -> FloatArray:
    return _least_from(machine, op, element_bytes, None, correction_of(machine, op, element_bytes))


def modelled(known: Known | None = None) -> Modelled:
    """Return a function for the model's seconds without neighbours."""

    def times(machine: NcclMachine, op: str, element_bytes: int, nbytes: FloatArray) -> FloatArray:
        return predict(machine, op, element_bytes, nbytes, known, ()).seconds

    return times


def correction_of(
    machine: NcclMachine,
    op: str,
    element_bytes: int,
    neighbours: Sequence[Neighbour] | None = None,
) -> Correction:
    """Return the correction by ``neighbours``, by default the shipped ones."""
    from dpsim.network.libraries.nccl.neighbours import NO_CORRECTION, correction, has_neighbours

    if not has_neighbours(machine):
        return NO_CORRECTION
    if neighbours is None:
        return _shipped_correction(machine, op, element_bytes)
    return correction(neighbours, machine, op, element_bytes)


@lru_cache(maxsize=256)
def _shipped_correction(machine: NcclMachine, op: str, element_bytes: int) -> Correction:
    from dpsim.network.libraries.nccl.neighbours import correction, shipped_neighbours

    return correction(shipped_neighbours(), machine, op, element_bytes)


def machine_constants(machine: NcclMachine, known: Known | None = None) -> dict[str, FloatArray]:
    """Return the parameters of `dpsim.network.libraries.nccl.cost.seconds`, arrays of length 1."""
    if known is None:
        return _shipped_constants_of(machine)
    return physical(machine_logs(known, machine)[None, :], facts_of([machine]))


@lru_cache(maxsize=256)
def _shipped_constants_of(machine: NcclMachine) -> dict[str, FloatArray]:
    return machine_constants(machine, shipped_constants())


def constant_groups(machine: NcclMachine) -> tuple[str, ...]:
    """Return the groups from which the machine's constants are assembled."""
    levels = (
        {"intra"}
        | ({"net"} if machine.nodes > 1 else set())
        | ({"floor"} if machine.launch != "default" else set())
    )
    return COMMON, *sorted(
        {key for p in PARAMS if p.level in levels for key in level_keys(p, machine) if key}
    )


def work_for(machine: NcclMachine, op: str, element_bytes: int, nbytes: FloatArray) -> Work:
    """Return rows of one machine and operation, each with the branch that NCCL chooses."""
    branch = [
        BRANCHES.index("/".join(chosen)) for chosen in choose(machine, op, element_bytes, nbytes)
    ]
    full = np.ones_like(nbytes)
    return Work(
        nbytes,
        full * machine.ranks,
        full * machine.nodes,
        np.full(len(nbytes), OPS.index(op)),
        np.asarray(branch, dtype=np.int64),
        full * (element_bytes == 1),
        full * machine.nic_rate * machine.fabric_share,
    )
