"""The algorithm and protocol of NCCL that this model finds fastest at each size.

NCCL chooses by its own estimates; a tuner plugin can make it use other choices.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, replace
from itertools import groupby, pairwise
from typing import Any

from dpsim.base.errors import DpsimError
from dpsim.base.lazy import Shown
from dpsim.network.libraries.nccl import NcclModel
from dpsim.topology import Cluster

# Smaller gains are within the model's errors, and rows would change at each size.
_LEAST_GAIN = 0.05
_RESTRICTIONS = ("ring", "tree", "in-network")  # restrictions that `NcclModel` knows


@dataclass(frozen=True, slots=True)
class SizeChoice:
    """The choice for sizes from ``smallest`` to ``largest`` bytes, both included.

    ``nccl`` is NCCL's own choice at these sizes. ``gain`` is the largest relative saving of time
    over NCCL's own choice at these sizes; 0 if both are the same.
    """

    smallest: int
    largest: int
    algorithm: str
    protocol: str
    nccl: str
    gain: float


@dataclass(frozen=True, slots=True)
class NcclChoices(Shown):
    """The choices for one operation on ``nodes`` and ``ranks``, from the smallest size up."""

    operation: str
    nodes: int
    ranks: int
    rows: tuple[SizeChoice, ...]

    def __repr__(self) -> str:
        changed = sum(row.gain > 0 for row in self.rows)
        return f"<NcclChoices for {self.operation}: {changed} of {len(self.rows)} not NCCL's own>"

    def to_json(self) -> dict[str, Any]:
        """Return the JSON object of ``dpsim collective --nccl-tuner``."""
        return {"schema_version": 1, "kind": "nccl-tuner", **asdict(self)}


def nccl_choices(
    cluster: Cluster, sizes: Iterable[int], operation: str = "all-reduce", itemsize: int = 4
) -> NcclChoices:
    """Return the fastest choice at each of ``sizes`` (bytes, rising, above 0).

    The best choice at a size holds up to the next one. Raises DpsimError as `NcclModel` does, and
    if the operation allows only one choice.
    """
    models = list(_models(cluster, operation, itemsize))
    machine = models[0].machine
    at_sizes = [_best(models, size) for size in sizes]
    if not at_sizes[0].algorithm:
        raise DpsimError(
            f"{operation} of {machine.ranks} ranks must be one for which NCCL chooses between "
            "algorithms and protocols, but it has one way"
        )
    ends = [after.smallest - 1 for _, after in pairwise(at_sizes)] + [at_sizes[-1].smallest]
    reaching = [replace(row, largest=end) for row, end in zip(at_sizes, ends, strict=True)]
    rows = tuple(
        _merge(list(rows_of_choice))
        for _, rows_of_choice in groupby(
            reaching, key=lambda row: (row.algorithm, row.protocol, row.nccl)
        )
    )
    return NcclChoices(operation, machine.nodes, machine.ranks, rows)


def _models(cluster: Cluster, operation: str, itemsize: int) -> Iterator[NcclModel]:
    """Yield NCCL with its own choice, then restricted to each possible algorithm."""
    yield NcclModel(cluster, operation=operation, itemsize=itemsize)
    # The other operations have one algorithm each.
    for name in _RESTRICTIONS if operation == "all-reduce" else ():
        try:
            yield NcclModel(cluster, operation=operation, restriction=name, itemsize=itemsize)
        except DpsimError:
            continue


def _best(models: list[NcclModel], nbytes: int) -> SizeChoice:
    """Return the choice at one size; ``algorithm`` is empty if there is no choice."""
    chosen = models[0].explain(nbytes)
    # Each algorithm loads the fabric differently, so it has its own model.
    restricted = models[1:] or models
    rivals = [rival for model in restricted for rival in model.explain(nbytes).rivals]
    if not rivals:
        return SizeChoice(nbytes, nbytes, "", "", chosen.chosen, 0.0)
    nccls_own = next(rival for rival in rivals if rival.name == chosen.chosen)
    fastest = min(rivals, key=lambda rival: rival.predicted)
    gain = 1 - fastest.predicted / nccls_own.predicted
    if gain < _LEAST_GAIN:
        fastest, gain = nccls_own, 0.0
    algorithm, protocol = fastest.name.split("/")
    return SizeChoice(nbytes, nbytes, algorithm, protocol, nccls_own.name, gain)


def _merge(rows_of_choice: list[SizeChoice]) -> SizeChoice:
    """Merge neighbouring sizes with the same choice."""
    gain = max(row.gain for row in rows_of_choice)
    return replace(rows_of_choice[0], largest=rows_of_choice[-1].largest, gain=gain)
