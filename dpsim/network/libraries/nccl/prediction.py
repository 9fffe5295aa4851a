"""The time of NCCL's collectives on a described machine.

NCCL's own choice says which algorithm and protocol run, the fitted costs what they take. Sizes
follow nccl-tests: the larger of a rank's send and receive buffers, in bytes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from dpsim.base.arrays import FloatArray
from dpsim.base.errors import DpsimError, UnknownNameError
from dpsim.network.libraries.nccl.assembly import Known, level_keys, machine_logs
from dpsim.network.libraries.nccl.constants import shipped_constants
from dpsim.network.libraries.nccl.cost import BRANCHES, OPS, Picked, Work, seconds
from dpsim.network.libraries.nccl.machine import NcclMachine
from dpsim.network.libraries.nccl.parameters import COMMON, PARAMS
from dpsim.network.libraries.nccl.physical_values import facts_of, physical
from dpsim.network.libraries.nccl.selection import choose

if TYPE_CHECKING:
    from dpsim.network.libraries.nccl.kin import Correction, Kin


@dataclass(frozen=True, slots=True, eq=False)
class Prediction:
    """Seconds for each size, the algorithm and protocol that run, and the kin that corrected it."""

    seconds: FloatArray
    algorithm: tuple[str, ...]
    protocol: tuple[str, ...]
    kin: tuple[str, ...] = ()


def predict(
    machine: NcclMachine,
    op: str,
    element_bytes: int,
    nbytes: npt.ArrayLike,
    known: Known | None = None,
    kin: Sequence[Kin] | None = None,
) -> Prediction:
    """Predict operation ``op`` (`OPS`) for each size of ``nbytes``.

    ``known`` and ``kin`` stand in for the shipped constants and measured curves. One rank moves
    nothing and takes no time. Raises DpsimError for an unknown operation and for sizes that are not
    above 0.
    """
    if op not in OPS:
        raise UnknownNameError("NCCL operation", op, OPS)
    sizes = np.atleast_1d(np.asarray(nbytes, dtype=np.float64))
    if (sizes <= 0).any():
        raise DpsimError(f"nbytes must be above 0, but got {sizes.min():g}")
    if machine.ranks == 1:
        return Prediction(np.zeros_like(sizes), ("none",) * len(sizes), ("none",) * len(sizes))
    work = work_for(machine, op, element_bytes, sizes)
    constants = machine_constants(machine, known)
    rows = Picked(constants, np.zeros(len(sizes), dtype=np.int64))
    algorithms, protocols = zip(*(BRANCHES[index].split("/") for index in work.branch), strict=True)
    if machine.nodes > 1:
        node = replace(machine, nodes=1, transport="none", nic_rate=0.0)
        inside = kin_correction(node, op, element_bytes, known, kin)
        rows["net_port"] = rows["net_port"] / inside.factor(sizes)
        return Prediction(seconds(work, rows), algorithms, protocols)
    corrected = kin_correction(machine, op, element_bytes, known, kin)
    times = seconds(work, rows) * corrected.factor(sizes)
    return Prediction(times, algorithms, protocols, corrected.names)


def kin_correction(
    machine: NcclMachine,
    op: str,
    element_bytes: int,
    known: Known | None = None,
    kin: Sequence[Kin] | None = None,
) -> Correction:
    """What measured machines of its kin say beside the model under the same constants."""
    from dpsim.network.libraries.nccl.kin import NO_CORRECTION, correction, nearest, shipped_kin

    if machine.nodes > 1:
        return NO_CORRECTION
    if known is None and kin is None:
        return _shipped_correction(machine, op, element_bytes)
    curves = shipped_kin() if kin is None else kin
    residuals = {
        name: [curve.faded(_residual(curve, known)) for curve in own]
        for name, own in nearest(curves, machine, op, element_bytes).items()
    }
    return correction(residuals)


@lru_cache(maxsize=256)
def _shipped_correction(machine: NcclMachine, op: str, element_bytes: int) -> Correction:
    from dpsim.network.libraries.nccl.kin import shipped_kin

    return kin_correction(machine, op, element_bytes, None, shipped_kin())


def _residual(curve: Kin, known: Known | None) -> FloatArray:
    """Ln(measured / model) of a curve, without its peaks: fewer bytes take no longer than more."""
    measured = np.minimum.accumulate(curve.seconds[::-1])[::-1]
    modelled = predict(curve.machine, curve.op, curve.element_bytes, curve.nbytes, known, ())
    return np.asarray(np.log(measured / modelled.seconds))


def machine_constants(machine: NcclMachine, known: Known | None = None) -> dict[str, FloatArray]:
    """What `dpsim.network.libraries.nccl.cost.seconds` takes, arrays of length 1."""
    if known is None:
        return _shipped_constants_of(machine)
    return physical(machine_logs(known, machine)[None, :], facts_of([machine]))


@lru_cache(maxsize=256)
def _shipped_constants_of(machine: NcclMachine) -> dict[str, FloatArray]:
    return machine_constants(machine, shipped_constants())


def constant_groups(machine: NcclMachine) -> tuple[str, ...]:
    """The groups of constants that the machine's own are made of."""
    levels = (
        {"intra"}
        | ({"net"} if machine.nodes > 1 else set())
        | ({"floor"} if machine.launch != "default" else set())
    )
    return COMMON, *sorted(
        {key for p in PARAMS if p.level in levels for key in level_keys(p, machine) if key}
    )


def work_for(machine: NcclMachine, op: str, element_bytes: int, nbytes: FloatArray) -> Work:
    """Rows of one machine and operation, each with the branch that NCCL's chooser takes."""
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
