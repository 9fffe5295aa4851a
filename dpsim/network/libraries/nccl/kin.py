"""Measured machines that stand near a described one, and what they say of it beside the model.

Inside a node the model leaves of a machine what its generation leaves: the sizes at which protocols
really switch, and steps of an operation. So where machines of the same fabric and generation were
measured, with the operation, the ranks and a near version of NCCL,

    ln t = ln t_model + sum_k r_k / (K + 1),    r_k = ln(measured / model) of kin k at that size

for K of them: one is believed by half, many nearly in full. Between nodes residuals are those of
a network and its settings, and do not carry over.

How a benchmark was started sets how long small sizes take, and the fabric what large ones do: a
machine started in a way of its own has kin among those started as usual from `_LAUNCHED` bytes on.
On PCIe it has none: rates there are the hosts', which differ more than kin tell.

Residuals hold at all sizes above the measured ones, where they are those of a rate: if they ended
there, twice the bytes could take half the time. Below the measured ones they fade.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from importlib.resources import files
from typing import Any

import numpy as np

from dpsim.base.arrays import FloatArray
from dpsim.network.libraries.nccl.machine import PCIE, Bus, NcclMachine

KIN_FILE = "kin.json"
NEAR = 6  # minor releases of NCCL, about two years
_FADE = 5.0  # octaves below the measured sizes in which a residual fades to nothing
_LAUNCHED = 2**20  # bytes from which on the way of starting no longer tells
_LAUNCHED_FADE = 1.0  # octaves below these
_USUAL = "default"  # way of starting


@dataclass(frozen=True, slots=True, eq=False)
class Kin:
    """A measured curve inside one node: whose, of what, and seconds by ascending bytes.

    ``large_alone``: what was measured below `_LAUNCHED` bytes is left out.
    """

    name: str
    machine: NcclMachine
    op: str
    element_bytes: int
    nbytes: FloatArray
    seconds: FloatArray
    large_alone: bool = False

    def is_of(self, machine: NcclMachine, op: str, element_bytes: int) -> bool:
        """Whether it says something of ``op`` on ``machine``."""
        mine = self.machine
        return (
            # Elements of one byte are apart, since their sums run below the rate of copies.
            (self.op, self.element_bytes == 1) == (op, element_bytes == 1)
            and _likeness(mine) == _likeness(machine)
            and self.versions_apart(machine) <= NEAR
        )

    def told(self, machine: NcclMachine) -> Kin | None:
        """What of it speaks of ``machine`` however that was started; None for none of it."""
        mine = self.machine.launch
        if mine == machine.launch:
            return self
        large = self.nbytes >= _LAUNCHED
        if mine != _USUAL or machine.intra == PCIE or not large.any():
            return None
        return replace(
            self, nbytes=self.nbytes[large], seconds=self.seconds[large], large_alone=True
        )

    def faded(self, logs: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Octaves, and a residual whose ``logs`` are known at the curve's own sizes.

        It begins with the octave at which it has faded to nothing.
        """
        octaves = np.log2(self.nbytes)
        fade = _LAUNCHED_FADE if self.large_alone else _FADE
        return np.append(octaves[0] - fade, octaves), np.append(0.0, logs)

    def versions_apart(self, machine: NcclMachine) -> int:
        """Minor releases between its NCCL and that of ``machine``; 0 where one is not stated."""
        mine, other = self.machine.nccl_version, machine.nccl_version
        if mine is None or other is None:
            return 0
        return abs(_minor(mine) - _minor(other))


def _minor(version: tuple[int, ...]) -> int:
    return 100 * version[0] + version[1]


def _likeness(machine: NcclMachine) -> tuple[object, ...]:
    """What kin have in common."""
    return (
        machine.nodes,
        machine.gpus_per_node,
        machine.generation,
        machine.bus,
        machine.forced_algorithm,
        machine.forced_protocol,
    )


@dataclass(frozen=True, slots=True, eq=False)
class Correction:
    """Ln of the factor on the model's time by log2 of bytes, and the machines that it is from."""

    octaves: FloatArray
    logs: FloatArray
    names: tuple[str, ...] = ()

    def factor(self, nbytes: FloatArray) -> FloatArray:
        """The factor at each size: 1 far below what was measured, as at its largest above it."""
        if not self.names:
            return np.ones_like(nbytes)
        return np.asarray(np.exp(np.interp(np.log2(nbytes), self.octaves, self.logs)))


NO_CORRECTION = Correction(np.zeros(0), np.zeros(0))


def nearest(
    kin: Sequence[Kin], machine: NcclMachine, op: str, element_bytes: int
) -> dict[str, list[Kin]]:
    """The curves of each machine that is kin, those of its nearest version alone."""
    if machine.nodes > 1:
        return {}
    found: dict[str, list[Kin]] = {}
    for curve in kin:
        told = curve.told(machine) if curve.is_of(machine, op, element_bytes) else None
        if told is not None:
            found.setdefault(told.name, []).append(told)
    for name, curves in found.items():
        least = min(curve.versions_apart(machine) for curve in curves)
        found[name] = [curve for curve in curves if curve.versions_apart(machine) == least]
    return found


def correction(residuals: Mapping[str, Sequence[tuple[FloatArray, FloatArray]]]) -> Correction:
    """From the residuals of each kin: curves of (octave, ln(measured / model)) as `Kin.faded`."""
    if not residuals:
        return NO_CORRECTION
    octaves = np.unique(np.concatenate([own for curves in residuals.values() for own, _ in curves]))
    total, count = np.zeros_like(octaves), np.zeros_like(octaves)
    for curves in residuals.values():
        # (curves, octaves): a machine that was measured several times counts once, by their median.
        own = np.array([np.interp(octaves, *curve, left=np.nan) for curve in curves])
        known = np.isfinite(own).any(axis=0)
        total[known] += np.nanmedian(own[:, known], axis=0)
        count += known
    # One more than there are: shrunk towards no correction, the more the fewer kin were measured.
    return Correction(octaves, total / (count + 1), tuple(sorted(residuals)))


@cache
def shipped_kin() -> tuple[Kin, ...]:
    """The curves that the package ships."""
    path = files("dpsim.network.libraries.nccl").joinpath(KIN_FILE)
    content: list[dict[str, Any]] = json.loads(path.read_text(encoding="utf-8"))
    return tuple(_read(entry) for entry in content)


def written(kin: Kin) -> dict[str, Any]:
    """A curve as it stands in the file; times in us."""
    machine = kin.machine
    fields = {
        "gpu": machine.gpu,
        "capability": machine.capability,
        "intra": machine.intra,
        "intra_rate": machine.intra_rate,
        "gpus_per_node": machine.gpus_per_node,
        "launch": machine.launch,
        "nccl_version": machine.nccl_version,
        "forced_algorithm": machine.forced_algorithm,
        "forced_protocol": machine.forced_protocol,
        "graph": machine.graph,
    }
    return {
        "name": kin.name,
        "machine": fields,
        "bus": [getattr(machine.bus, name) for name in Bus.__dataclass_fields__],
        "op": kin.op,
        "element_bytes": kin.element_bytes,
        "bytes": [int(size) for size in kin.nbytes],
        "us": [float(f"{1e6 * time:.5g}") for time in kin.seconds],
    }


def _read(entry: Mapping[str, Any]) -> Kin:
    machine = NcclMachine(**entry["machine"])
    version = machine.nccl_version
    return Kin(
        entry["name"],
        replace(machine, bus=Bus(*entry["bus"]), nccl_version=version and tuple(version)),
        entry["op"],
        entry["element_bytes"],
        np.array(entry["bytes"], dtype=np.float64),
        1e-6 * np.array(entry["us"]),
    )
