"""Nearest-neighbour residual correction, from residuals of the model on similar measured machines.

Inside a node, machines of one generation share their residuals, which come from the sizes at which
protocols really switch and from the steps of an operation. If machines whose GPUs have the same
NVLinks were measured with the same operation, number of ranks and a near version of NCCL, then

    ln t = ln t_model + sum_k a_k m_k / (sum_k a_k + 1)
    m_k = sum_i w_i r_i / sum_i w_i,    a_k = sum_i w_i / (sum_i w_i + FEW)
    w_i = exp(-(d_i / WIDTH)^2 / 2)

over machines k: one machine's residual near the size counts by half, many machines' nearly in full.
r_i are the machine's residuals ln(measured / model), averaged over two octaves each, and d_i their
distances in octaves from the requested size. Above the largest measured size the correction stays,
since it corrects a rate; below the smallest it fades.

The correction is not used over PCIe, where rates depend on the host, and hosts of equal description
differ by more than the model's error (docs/accuracy.md). It is not used between nodes either, where
residuals depend on the network and its settings.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from functools import cache
from importlib.resources import files
from typing import Any

import numpy as np

from dpsim.base.arrays import FloatArray
from dpsim.network.libraries.nccl.machine import NVMESH, NVSWITCH, Bus, NcclMachine

NEIGHBOURS_FILE = "neighbours.json"
NEAR = 6  # minor releases of NCCL, about two years
WIDTH = 2.0  # octaves over which a residual applies to other sizes
FEW = 0.15  # in measurements at the size itself: with that weight a machine counts by half
_BIN = 2  # octaves over which residuals are averaged
_DIGITS = 4

# Seconds of an operation on a machine with elements of some bytes, at each size.
Modelled = Callable[[NcclMachine, str, int, FloatArray], FloatArray]
Version = tuple[int, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Measured:
    """A measured curve inside one node: machine, operation, and seconds by ascending bytes."""

    name: str
    machine: NcclMachine
    op: str
    element_bytes: int
    nbytes: FloatArray
    seconds: FloatArray

    def residuals(self, modelled: Modelled) -> FloatArray:
        """Return ln(measured / model); measured times are made monotonic in the size."""
        measured = np.minimum.accumulate(self.seconds[::-1])[::-1]
        model = modelled(self.machine, self.op, self.element_bytes, self.nbytes)
        return np.asarray(np.log(measured / model))


@dataclass(frozen=True, slots=True, eq=False)
class Neighbour:
    """Residuals of an operation on a measured machine, by ascending octaves of bytes.

    ``versions`` are the oldest and the newest NCCL that it was measured with.
    """

    name: str
    machine: NcclMachine
    op: str
    element_bytes: int
    versions: tuple[Version, Version] | None
    octaves: FloatArray
    logs: FloatArray

    def is_near(self, machine: NcclMachine, op: str, element_bytes: int) -> bool:
        """Return whether its residuals apply to ``op`` on ``machine``."""
        return (
            # Elements of one byte are separate, because their sums run below the rate of copies.
            (self.op, self.element_bytes == 1) == (op, element_bytes == 1)
            and _features(self.machine) == _features(machine)
            and self._versions_apart(machine) <= NEAR
        )

    def _versions_apart(self, machine: NcclMachine) -> int:
        """Return the minor releases between its NCCL and the machine's; 0 if one is unknown."""
        if self.versions is None or machine.nccl_version is None:
            return 0
        oldest, newest = (_minor(version) for version in self.versions)
        version = _minor(machine.nccl_version)
        return max(oldest - version, version - newest, 0)

    def under(self, modelled: Modelled, other: Modelled) -> Neighbour:
        """Return the neighbour with residuals of the model ``other`` instead of ``modelled``."""
        arguments = self.machine, self.op, self.element_bytes, np.exp2(self.octaves)
        return replace(self, logs=self.logs + np.log(modelled(*arguments) / other(*arguments)))


def _minor(version: Version) -> int:
    return 100 * version[0] + version[1]


def _features(machine: NcclMachine) -> tuple[object, ...]:
    """Return the properties that neighbours have in common."""
    return (
        machine.gpus_per_node,
        machine.generation,
        machine.forced_algorithm,
        machine.forced_protocol,
    )


def has_neighbours(machine: NcclMachine) -> bool:
    """Return whether residuals of similar machines can apply to this one at all."""
    return machine.nodes == 1 and machine.ranks > 1 and machine.intra in (NVSWITCH, NVMESH)


def neighbours_of(curves: Iterable[Measured], modelled: Modelled) -> tuple[Neighbour, ...]:
    """Return a neighbour for each machine, ranks and operation of ``curves``, by a model."""
    by_key: dict[tuple[object, ...], list[Measured]] = {}
    for curve in curves:
        if has_neighbours(curve.machine):
            key = curve.name, _features(curve.machine), curve.op, curve.element_bytes == 1
            by_key.setdefault(key, []).append(curve)
    return tuple(_neighbour(own, modelled) for own in by_key.values())


def _neighbour(curves: Sequence[Measured], modelled: Modelled) -> Neighbour:
    """Return one neighbour from curves that differ only in versions, buffers and elements."""
    first = curves[0]
    octaves = np.log2(np.concatenate([curve.nbytes for curve in curves]))
    logs = np.concatenate([curve.residuals(modelled) for curve in curves])
    bins, place = np.unique(np.floor(octaves / _BIN), return_inverse=True)
    means = np.bincount(place, logs) / np.bincount(place)
    stated = [curve.machine.nccl_version for curve in curves if curve.machine.nccl_version]
    # The middle of a bin, limited to the measured range, beyond which the rate is constant.
    middle = np.clip((bins + 0.5) * _BIN, octaves.min(), octaves.max())
    versions = (min(stated), max(stated)) if stated else None
    return Neighbour(
        first.name, first.machine, first.op, first.element_bytes, versions, middle, means
    )


@dataclass(frozen=True, slots=True, eq=False)
class Correction:
    """The factor on the model's time at each size, and the machines that it comes from."""

    neighbours: tuple[Neighbour, ...]

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the machines."""
        return tuple(sorted({each.name for each in self.neighbours}))

    def factor(self, nbytes: FloatArray) -> FloatArray:
        """Return the factor at each size; 1 without neighbours."""
        total, confidence = np.zeros_like(nbytes), np.zeros_like(nbytes)
        for each in self.neighbours:
            octaves = np.minimum(np.log2(nbytes), each.octaves[-1])
            distance = (octaves[:, None] - each.octaves) / WIDTH
            weights = np.exp(-(distance**2) / 2)
            near = weights.sum(axis=1)
            total += weights @ each.logs / (near + FEW)
            confidence += near / (near + FEW)
        # The extra 1 shrinks the correction, more so with fewer machines.
        return np.asarray(np.exp(total / (confidence + 1.0)))


NO_CORRECTION = Correction(())


def correction(
    neighbours: Iterable[Neighbour], machine: NcclMachine, op: str, element_bytes: int
) -> Correction:
    """Return the correction from the ``neighbours`` that are near ``op`` on ``machine``."""
    if not has_neighbours(machine):
        return NO_CORRECTION
    return Correction(
        tuple(each for each in neighbours if each.is_near(machine, op, element_bytes))
    )


@cache
def shipped_neighbours() -> tuple[Neighbour, ...]:
    """Return the neighbours that the package ships, with residuals of the shipped constants."""
    path = files("dpsim.network.libraries.nccl").joinpath(NEIGHBOURS_FILE)
    content: list[dict[str, Any]] = json.loads(path.read_text(encoding="utf-8"))
    return tuple(_read(entry) for entry in content)


def written(neighbour: Neighbour) -> dict[str, Any]:
    """Return a neighbour in the format of the file."""
    return {
        "name": neighbour.name,
        "machine": machine_json(neighbour.machine),
        "op": neighbour.op,
        "element_bytes": neighbour.element_bytes,
        "versions": neighbour.versions,
        "octaves": [round(float(octave), 2) for octave in neighbour.octaves],
        "residuals": [round(float(log), _DIGITS) for log in neighbour.logs],
    }


def machine_json(machine: NcclMachine) -> dict[str, Any]:
    """Return a machine in the format of files: the fields that differ from the defaults."""
    stated = {
        each.name: getattr(machine, each.name)
        for each in fields(NcclMachine)
        if each.init and getattr(machine, each.name) != each.default
    }
    return {**stated, "bus": asdict(machine.bus)} if "bus" in stated else stated


def machine_from_json(entry: Mapping[str, Any]) -> NcclMachine:
    """Return the machine of a file's entry."""
    values = dict(entry)
    if "bus" in values:
        values["bus"] = Bus(**values["bus"])
    if values.get("nccl_version"):
        values["nccl_version"] = tuple(values["nccl_version"])
    return NcclMachine(**values)


def _read(entry: Mapping[str, Any]) -> Neighbour:
    versions = entry["versions"]
    return Neighbour(
        entry["name"],
        machine_from_json(entry["machine"]),
        entry["op"],
        entry["element_bytes"],
        versions and (tuple(versions[0]), tuple(versions[1])),
        np.array(entry["octaves"], dtype=np.float64),
        np.array(entry["residuals"], dtype=np.float64),
    )
