"""Explain why NCCL selects an algorithm and protocol.

Includes the terms of the predicted time, and the sizes at which the selection changes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from dpsim.base.uncertainty import ModelError, PredictionInterval
from dpsim.network.libraries.nccl.cost import BRANCHES, Picked, seconds
from dpsim.network.libraries.nccl.machine import NcclMachine
from dpsim.network.libraries.nccl.prediction import (
    Prediction,
    constant_groups,
    correction_of,
    machine_constants,
    predict,
    work_for,
)
from dpsim.network.libraries.nccl.selection import costs

# Sizes in bytes, rising, between which the selection's switch points are searched.
_SIZES = np.exp2(np.arange(3, 37, 0.25))


@dataclass(frozen=True, slots=True)
class Rival:
    """An algorithm and protocol that could run.

    Has NCCL's own estimate (s), on which it selects, and this model's time (s) with its interval.
    """

    name: str
    nccl_estimate: float
    predicted: float
    interval: PredictionInterval

    def to_json(self) -> dict[str, Any]:
        """Return its fields by name; times in s."""
        return {
            "name": self.name,
            "nccl_estimate_s": self.nccl_estimate,
            "predicted_s": self.predicted,
            "interval_s": self.interval.to_json(),
        }


@dataclass(frozen=True, slots=True)
class Explanation:
    """Why one call runs as it does.

    ``terms`` split the time (s) into latency, transfer and ramp (filling the pipeline, less
    overlap). ``below`` and ``above`` are the nearest size (bytes) down and up at which another
    choice is made, and that choice. ``interval``: of the time. ``nearest_machines``: the
    measured machines whose residuals corrected it.
    """

    nbytes: int
    chosen: str
    predicted: float
    interval: PredictionInterval
    rivals: tuple[Rival, ...]
    terms: dict[str, float]
    below: tuple[int, str] | None
    above: tuple[int, str] | None
    constants: tuple[str, ...]
    nearest_machines: tuple[str, ...] = ()

    @property
    def dominant(self) -> str:
        """The largest term of the time."""
        return max(self.terms, key=lambda term: self.terms[term])

    @property
    def reason(self) -> str:
        """The reason for the choice, in a sentence."""
        if len(self.rivals) < 2:
            return f"{self.chosen} is the only one that can run here"
        first, second = self.rivals[:2]
        margin = second.nccl_estimate / first.nccl_estimate - 1
        return f"NCCL estimates {self.chosen} {margin:.0%} faster than {second.name}, the next best"

    def to_json(self) -> dict[str, Any]:
        """Return its fields by name; times in s."""
        return {
            "bytes": self.nbytes,
            "chosen": self.chosen,
            "time_s": self.predicted,
            "interval_s": self.interval.to_json(),
            "reason": self.reason,
            "rivals": [rival.to_json() for rival in self.rivals],
            "terms_s": self.terms,
            "dominant": self.dominant,
            "changes_below": None
            if self.below is None
            else {"bytes": self.below[0], "to": self.below[1]},
            "changes_above": None
            if self.above is None
            else {"bytes": self.above[0], "to": self.above[1]},
            "constants": list(self.constants),
            "nearest_machines": list(self.nearest_machines),
        }


def explain(
    machine: NcclMachine,
    op: str,
    element_bytes: int,
    nbytes: int,
    extra_latency: Callable[[str], float] = lambda algorithm: 0.0,
) -> Explanation:
    """Explain operation ``op`` of ``nbytes``. Raises DpsimError as `predict` does.

    ``extra_latency`` returns the extra latency (s) of an algorithm on routes longer than any
    measured.
    """
    from dpsim.network.libraries.nccl.model_error import machine_error

    found = predict(machine, op, element_bytes, [nbytes])
    took, chosen = float(found.seconds[0]), _name(found, 0)
    terms = _terms(machine, op, element_bytes, nbytes, chosen, took)
    more = extra_latency(found.algorithm[0])
    took, terms["latency"] = took + more, terms["latency"] + more
    below, above = _switches(machine, op, element_bytes, nbytes, chosen)
    model_error = machine_error(machine, op, nbytes, took)
    return Explanation(
        nbytes,
        chosen,
        took,
        model_error.around(took),
        _rivals(machine, op, element_bytes, nbytes, (chosen, took), model_error, extra_latency),
        terms,
        below,
        above,
        constant_groups(machine),
        found.neighbours,
    )


def _name(found: Prediction, row: int) -> str:
    return f"{found.algorithm[row]}/{found.protocol[row]}"


def _on_branch(
    machine: NcclMachine,
    op: str,
    element_bytes: int,
    sizes: list[float],
    branch: str,
) -> list[float]:
    """Return the seconds for each size on ``branch``."""
    work = work_for(machine, op, element_bytes, np.array(sizes, dtype=np.float64))
    work.branch[:] = BRANCHES.index(branch)
    constants = Picked(machine_constants(machine), np.zeros(len(sizes), dtype=np.int64))
    return [float(time) for time in seconds(work, constants)]


def _rivals(
    machine: NcclMachine,
    op: str,
    element_bytes: int,
    nbytes: int,
    chosen: tuple[str, float],
    model_error: ModelError,
    extra_latency: Callable[[str], float],
) -> tuple[Rival, ...]:
    """Return all choices that NCCL may make; ``chosen`` has the time of its choice."""
    if op in ("alltoall", "sendrecv") or machine.ranks == 1:
        return ()
    table = costs(machine, op, element_bytes, np.array([float(nbytes)]))
    names = {
        f"{algorithm}/{protocol}": float(time[0]) for (algorithm, protocol), time in table.items()
    }
    factor = float(correction_of(machine, op, element_bytes).factor(np.array([float(nbytes)]))[0])
    rivals = []
    for name, estimate in sorted(names.items(), key=lambda item: item[1]):
        (time,) = _on_branch(machine, op, element_bytes, [nbytes], name)
        time = chosen[1] if name == chosen[0] else factor * time + extra_latency(name.split("/")[0])
        rivals.append(Rival(name, estimate, time, model_error.around(time)))
    return tuple(rivals)


def _terms(
    machine: NcclMachine, op: str, element_bytes: int, nbytes: int, chosen: str, took: float
) -> dict[str, float]:
    """Split the seconds that a call ``took`` into latency, transfer and ramp.

    Latency is the time of one byte, transfer the bytes at the rate of the largest sizes, and ramp
    the rest. Corrections by neighbours and larger sizes scale all three equally.
    """
    if machine.ranks == 1:
        return {"latency": 0.0, "transfer": 0.0, "ramp": 0.0}
    # At such sizes a branch's time grows only by its rate.
    huge = 2.0**44
    none, here, large, larger = _on_branch(
        machine, op, element_bytes, [1.0, nbytes, huge, 2 * huge], chosen
    )
    transfer = nbytes * (larger - large) / huge
    terms = {"latency": none, "transfer": transfer, "ramp": here - none - transfer}
    return {name: took / here * time for name, time in terms.items()}


def _switches(
    machine: NcclMachine, op: str, element_bytes: int, nbytes: int, chosen: str
) -> tuple[tuple[int, str] | None, tuple[int, str] | None]:
    """Return the nearest smaller and larger size with another choice of NCCL, and that choice."""
    # On a grid, because NCCL compares piecewise linear functions without a formula for crossings.
    found = predict(machine, op, element_bytes, _SIZES)
    below: tuple[int, str] | None = None
    for row, size in enumerate(_SIZES.tolist()):
        other = int(size), _name(found, row)
        if other[1] == chosen:
            continue
        # The nearest are the last one below and the first one above.
        if size < nbytes:
            below = other
        elif size > nbytes:
            return below, other
    return below, None
