"""The residuals of the NCCL model on held-out machines and generations.

The spread of ln(measured / predicted) by family (the GPUs' interconnect, all-reduces or other
collectives) and size, below 1 MiB or from 1 MiB on; separately for machines with a twin, another
machine of the same description. For machines unlike all families the draws are whole generations.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from dpsim.network import machine_error, size_class
from dpsim.network.libraries.nccl import described_as, family_of, machine_json
from tools.refits.residual_quantiles import spread_of
from validate.published.nccl.scores import Score

_EXTRAPOLATED = "extrapolated"
_FEWEST_MACHINES = 10  # for the shortest interval: of fewer machines, one has too much weight


def residual_table(by_machine: Sequence[Score], by_generation: Sequence[Score]) -> dict[str, Any]:
    """Return the residuals by family, and for machines unlike all families.

    The first scores leave out the machine itself, the second all machines of its generation too.
    ``reach`` is the largest measured machine of each generation, ``measured`` lists the machines.
    """
    return {
        "families": [*_families(by_machine)],
        "unlike": [*_unlike(by_generation)],
        "reach": _reach(by_machine),
        "measured": [*_machine_rows(by_machine)],
    }


def _families(scores: Sequence[Score]) -> Iterable[dict[str, Any]]:
    has_twin = _with_twins(scores)
    for (family, sizes), rows in _by(scores, lambda each: (_family(each), _sizes(each))):
        twins = [row for row in rows if row.case.machine_name in has_twin]
        yield {
            "family": family,
            "sizes": sizes,
            "machines": len(_machines(rows)),
            "spread": _spread(rows, _machine, shortest=len(_machines(rows)) >= _FEWEST_MACHINES),
            # A single pair does not predict the next.
            "twins": _spread(twins, _machine) if len(_machines(twins)) > 2 else None,
        }


def _unlike(scores: Sequence[Score]) -> Iterable[dict[str, Any]]:
    for (is_one_node, sizes), rows in _by(
        scores, lambda each: (each.case.machine.nodes == 1, _sizes(each))
    ):
        yield {
            "is_one_node": is_one_node,
            "sizes": sizes,
            "generations": len({row.case.machine.generation for row in rows}),
            "spread": _spread(rows, lambda row: row.case.machine.generation),
        }


def _reach(scores: Sequence[Score]) -> dict[str, dict[str, Any]]:
    """Return the most GPUs and nodes, and the transports, of the machines of each generation.

    ``machines`` is how many of them ran each operation.
    """
    reach = {}
    for kind, rows in _by(scores, lambda each: each.case.machine.generation):
        ran = Counter(op for _, op in {(_machine(row), row.case.op) for row in rows})
        reach[kind] = {
            "GPUs": max(row.case.machine.gpus_per_node for row in rows),
            "nodes": max(row.case.machine.nodes for row in rows),
            "transports": sorted({row.case.machine.transport for row in rows}),
            "machines": dict(sorted(ran.items())),
        }
    return reach


def _machine_rows(scores: Sequence[Score]) -> Iterable[dict[str, Any]]:
    """Yield each measured machine with the bus bandwidth of its largest all-reduce."""
    own = [score for score in scores if score.case.op == "all_reduce"]
    for (name, machine), rows in _by(own, lambda each: (_machine(each), each.case.machine)):
        largest = max(rows, key=lambda row: row.nbytes)
        ranks = machine.ranks
        busbw = 2 * (ranks - 1) / ranks * largest.nbytes / largest.measured
        yield {
            "machine": machine_json(machine),
            "source": name,
            "bytes": largest.nbytes,
            "bandwidth_Bps": busbw,
        }


def coverage(by_machine: Sequence[Score], by_generation: Sequence[Score]) -> dict[str, Any]:
    """Return rows, share inside and median width (high / low), by family and extrapolated.

    A machine's own residuals are left out of the spreads, too.
    """
    inside: dict[str, list[tuple[bool, float]]] = defaultdict(list)
    for machine in sorted(_machines(by_machine)):
        # Separately for each machine: its interval must not use its own errors.
        residuals = residual_table(_others(by_machine, machine), _others(by_generation, machine))
        for score in by_machine:
            if score.case.machine_name == machine:
                model_error = machine_error(
                    score.case.machine, score.case.op, score.nbytes, score.predicted, residuals
                )
                interval = model_error.around(score.predicted)
                row = interval.low <= score.measured <= interval.high, interval.high / interval.low
                inside[f"{_family(score)}, {_sizes(score)}"].append(row)
                if interval.extrapolated:
                    inside[_EXTRAPOLATED].append(row)
    return {
        group: {
            "rows": len(rows),
            "inside": round(float(np.mean([each for each, _ in rows])), 3),
            "width": round(float(np.median([width for _, width in rows])), 3),
        }
        for group, rows in sorted(inside.items())
    }


def _others(scores: Sequence[Score], machine: str) -> list[Score]:
    return [score for score in scores if score.case.machine_name != machine]


def _by(scores: Iterable[Score], key: Callable[[Score], Any]) -> Iterable[tuple[Any, list[Score]]]:
    found: dict[Any, list[Score]] = defaultdict(list)
    for score in scores:
        found[key(score)].append(score)
    return sorted(found.items(), key=lambda item: str(item[0]))


def _with_twins(scores: Sequence[Score]) -> set[str]:
    """Return the machines with another measured machine of the same description."""
    names: Mapping[Any, set[str]] = defaultdict(set)
    for score in scores:
        names[described_as(score.case.machine)].add(score.case.machine_name)
    return {name for alike in names.values() if len(alike) > 1 for name in alike}


def _spread(
    scores: Sequence[Score], name: Callable[[Score], str], *, shortest: bool = False
) -> Any:
    residual = np.array([np.log(score.measured / score.predicted) for score in scores])
    return spread_of(residual, [name(score) for score in scores], shortest=shortest)


def _family(score: Score) -> str:
    return family_of(score.case.machine, score.case.op)


def _sizes(score: Score) -> str:
    return size_class(score.nbytes)


def _machine(score: Score) -> str:
    return score.case.machine_name


def _machines(scores: Sequence[Score]) -> set[str]:
    return {score.case.machine_name for score in scores}
