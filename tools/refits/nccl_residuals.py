"""What the model of NCCL leaves of machines and generations that its fit did not see.

Quantiles of ln(measured / predicted) by family: an intra-node fabric or a transport, an operation,
and sizes below 1 MiB or from there on. Machines count alike, whatever the number of their rows.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from dpsim.network import nccl_doubt
from dpsim.network.libraries.nccl import generation
from tools.refits.residual_quantiles import QUANTILES, residual_quantiles
from validate.published.nccl import MIB, Score, transport_group

# The first left out the machine itself, the second all machines of its generation too.
Family = tuple[str, str, str]


def residual_table(by_machine: Sequence[Score], by_generation: Sequence[Score]) -> dict[str, Any]:
    """The families, each with its residuals under both ways of leaving out.

    ``machines`` and ``generations`` say what a family's quantiles rest on.
    """
    machine, gen = _by_family(by_machine), _by_family(by_generation)
    return {
        "quantiles": list(QUANTILES),
        "families": [
            {
                "family": family[0],
                "operation": family[1],
                "sizes": family[2],
                "machines": len({score.case.machine_name for score in scores}),
                "generations": sorted({generation(score.case.machine) for score in scores}),
                "machine_left_out": _quantiles(scores),
                "generation_left_out": _quantiles(gen[family]),
            }
            for family, scores in sorted(machine.items())
        ],
    }


def coverage(by_machine: Sequence[Score], by_generation: Sequence[Score]) -> dict[str, float]:
    """The mean over machines of each one's share of rows inside their interval, by group.

    A machine's own residuals are left out of the quantiles, too.
    """
    shares: dict[str, list[float]] = defaultdict(list)
    for machine in sorted({score.case.machine_name for score in by_machine}):
        # Anew for each machine: its interval must not know its own errors.
        residuals = residual_table(_others(by_machine, machine), _others(by_generation, machine))
        inside: dict[str, list[bool]] = defaultdict(list)
        for score in by_machine:
            case = score.case
            if case.machine_name == machine:
                group = transport_group(case.machine, case.op)
                inside[group].append(_is_inside(score, residuals))
        for group, found in inside.items():
            shares[group].append(float(np.mean(found)))
    return {group: float(np.mean(found)) for group, found in sorted(shares.items())}


def _others(scores: Sequence[Score], machine: str) -> list[Score]:
    return [score for score in scores if score.case.machine_name != machine]


def _is_inside(score: Score, residuals: Mapping[str, Any]) -> bool:
    machine = score.case.machine
    doubt = nccl_doubt(
        generation(machine), machine.nodes == 1, score.case.op, _sizes(score), residuals
    )
    interval = doubt.around(score.predicted)
    return interval.low <= score.measured <= interval.high


def _sizes(score: Score) -> str:
    return "from 1 MiB" if score.nbytes >= MIB else "below 1 MiB"


def _by_family(scores: Sequence[Score]) -> dict[Family, list[Score]]:
    families: dict[Family, list[Score]] = defaultdict(list)
    for score in scores:
        for operation in (score.case.op, "any"):
            families[_heading(score), operation, _sizes(score)].append(score)
    return families


def _heading(score: Score) -> str:
    machine = score.case.machine
    return transport_group(machine) if machine.nodes == 1 else generation(machine)


def _quantiles(scores: Sequence[Score]) -> list[float]:
    """Quantiles of ln(measured / predicted), each machine with the same weight."""
    residual = np.array([np.log(score.measured / score.predicted) for score in scores])
    return residual_quantiles(residual, [score.case.machine_name for score in scores])
