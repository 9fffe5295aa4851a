"""What the model of NCCL leaves of machines and generations that its fit did not see.

Quantiles of ln(measured / predicted) by family: an intra-node fabric or a transport, an operation,
and sizes below 1 MiB or from there on. Machines count alike, whatever the number of their rows.
They are those of the next machine. Residuals of one machine hang together, so that a family of K
machines has K draws of a machine's error, and its quantiles are drawn from the median by

    t(K - 1) sqrt(1 + 1 / K) / normal,    the ratio of Student's t quantile to the normal one,

as if errors were normal. Of what is unlike all families the draws are generations.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from scipy.special import ndtri, stdtrit

from dpsim.base.arrays import FloatArray
from dpsim.base.doubt import PredictionInterval, mixed
from dpsim.network import beyond, nccl_doubt
from dpsim.network.libraries.nccl import NcclMachine
from tools.refits.residual_quantiles import QUANTILES, residual_quantiles
from validate.published.nccl import MIB, Score, transport_group

# Heading, operation, sizes.
Family = tuple[str, str, str]
_MEDIAN = QUANTILES.index(0.5)
# As how many machines more the residuals of all families count beside those of one: a few machines
# do not show how far off the next may be.
BORROWED = 2
_DIGITS = 4
_EXTRAPOLATED = "extrapolated"


def residual_table(by_machine: Sequence[Score], by_generation: Sequence[Score]) -> dict[str, Any]:
    """The families, and what holds for machines that are unlike all of them.

    The first scores left out the machine itself, the second all machines of its generation too.
    ``machines`` and ``generations`` say what quantiles rest on, ``reach`` the most of what was
    measured.
    """
    machine, gen = _by_family(by_machine), _by_family(by_generation)
    unlike = {key: _unlike(gen, *key) for key in sorted({_key(family) for family in gen})}
    return {
        "quantiles": list(QUANTILES),
        "families": [
            {
                "family": family[0],
                "operation": family[1],
                "sizes": family[2],
                "machines": len(_machines(scores)),
                "generations": _generations(scores),
                "residuals": _rounded(_of_the_next(scores, unlike[_key(family)]["residuals"])),
            }
            for family, scores in sorted(machine.items())
        ],
        "unlike": [{**each, "residuals": _rounded(each["residuals"])} for each in unlike.values()],
        "reach": _reach(by_machine),
    }


def _reach(scores: Sequence[Score]) -> dict[str, dict[str, Any]]:
    """The most GPUs and nodes, and the transports, that machines of each generation had."""
    machines: dict[str, set[NcclMachine]] = defaultdict(set)
    for score in scores:
        machines[score.case.machine.generation].add(score.case.machine)
    return {
        kind: {
            "GPUs": max(each.gpus_per_node for each in found),
            "nodes": max(each.nodes for each in found),
            "transports": sorted({each.transport for each in found}),
        }
        for kind, found in sorted(machines.items())
    }


def _key(family: Family) -> tuple[bool, str]:
    heading, _, sizes = family
    return heading.startswith("single-node"), sizes


def _of_the_next(scores: Sequence[Score], of_all: FloatArray) -> FloatArray:
    """Residuals of one more machine of a family, with a share of those ``of_all`` families."""
    machines = len(_machines(scores))
    own = stretched(_quantiles(scores), machines)
    return np.array(mixed(QUANTILES, np.array([own, of_all]), [machines, BORROWED]))


def _unlike(
    families: Mapping[Family, Sequence[Score]], is_one_node: bool, sizes: str
) -> dict[str, Any]:
    """The residuals of one more generation, of families that weigh by how many they have."""
    alike = [
        scores
        for family, scores in sorted(families.items())
        if family[1] == "any" and _key(family) == (is_one_node, sizes)
    ]
    weights = [len(_generations(scores)) for scores in alike]
    members = np.array([_quantiles(scores) for scores in alike])
    return {
        "is_one_node": is_one_node,
        "sizes": sizes,
        "generations": sum(weights),
        "residuals": stretched(mixed(QUANTILES, members, weights), sum(weights)),
    }


def stretched(quantiles: Sequence[float], draws: int) -> FloatArray:
    """Quantiles of the next draw, by those of ``draws`` so far; one of a single draw stays."""
    known = np.array(quantiles)
    # Of one draw nothing says how far the next may be.
    if draws == 1:
        return known
    levels = np.delete(np.array(QUANTILES), _MEDIAN)
    wider = stdtrit(draws - 1, levels) * np.sqrt(1 + 1 / draws) / ndtri(levels)
    median = known[_MEDIAN]
    return np.asarray(median + (known - median) * np.insert(wider, _MEDIAN, 1.0))


def coverage(by_machine: Sequence[Score], by_generation: Sequence[Score]) -> dict[str, float]:
    """The mean over machines of each one's share of rows inside their interval, by group.

    A machine's own residuals are left out of the quantiles, too. Rows whose interval says that it
    is extrapolated are a group besides.
    """
    shares: dict[str, list[float]] = defaultdict(list)
    for machine in sorted({score.case.machine_name for score in by_machine}):
        # Anew for each machine: its interval must not know its own errors.
        residuals = residual_table(_others(by_machine, machine), _others(by_generation, machine))
        inside: dict[str, list[bool]] = defaultdict(list)
        for score in by_machine:
            case = score.case
            if case.machine_name == machine:
                interval = _interval(score, residuals)
                found = interval.low <= score.measured <= interval.high
                inside[transport_group(case.machine, case.op)].append(found)
                if interval.extrapolated:
                    inside[_EXTRAPOLATED].append(found)
        for group, rows in inside.items():
            shares[group].append(float(np.mean(rows)))
    return {group: float(np.mean(found)) for group, found in sorted(shares.items())}


def _others(scores: Sequence[Score], machine: str) -> list[Score]:
    return [score for score in scores if score.case.machine_name != machine]


def _interval(score: Score, residuals: Mapping[str, Any]) -> PredictionInterval:
    machine = score.case.machine
    kind, is_one_node = machine.generation, machine.nodes == 1
    apart = beyond(machine, residuals)
    doubt = nccl_doubt(kind, is_one_node, score.case.op, _sizes(score), residuals, beyond=apart)
    return doubt.around(score.predicted)


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
    return transport_group(machine) if machine.nodes == 1 else machine.generation


def _quantiles(scores: Sequence[Score]) -> list[float]:
    """Quantiles of ln(measured / predicted), each machine with the same weight."""
    residual = np.array([np.log(score.measured / score.predicted) for score in scores])
    return residual_quantiles(residual, [score.case.machine_name for score in scores])


def _rounded(residuals: FloatArray) -> list[float]:
    return [round(float(residual), _DIGITS) for residual in residuals]


def _machines(scores: Sequence[Score]) -> set[str]:
    return {score.case.machine_name for score in scores}


def _generations(scores: Sequence[Score]) -> list[str]:
    return sorted({score.case.machine.generation for score in scores})
