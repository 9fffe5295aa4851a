"""With which algorithm and protocol NCCL would be fastest at each size, by this model.

NCCL chooses by estimates of its own. Where the model finds another choice faster, a tuner plugin
can make NCCL take it.
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

# A choice that gains less stays NCCL's own: models err by more, and rows would change at each size.
_LEAST_GAIN = 0.05
_HELD_TO = ("ring", "tree", "in-network")  # as `NcclModel` names what NCCL can be held to


@dataclass(frozen=True, slots=True)
class SizeChoice:
    """What to take from ``smallest`` to ``largest`` bytes, both included.

    ``nccl``: what NCCL takes by itself at these sizes. ``gain``: how much less time
    the choice takes than NCCL's own, the most over these sizes, as a fraction; 0 where it is that.
    """

    smallest: int
    largest: int
    algorithm: str
    protocol: str
    nccl: str
    gain: float


@dataclass(frozen=True, slots=True)
class NcclChoices(Shown):
    """The choices for one operation, from the smallest size on, of ``nodes`` and ``ranks``."""

    operation: str
    nodes: int
    ranks: int
    rows: tuple[SizeChoice, ...]

    def __repr__(self) -> str:
        changed = sum(row.gain > 0 for row in self.rows)
        return f"<NcclChoices for {self.operation}: {changed} of {len(self.rows)} not NCCL's own>"

    def to_json(self) -> dict[str, Any]:
        """The JSON object of ``dpsim collective --nccl-tuner``."""
        return {"schema_version": 1, "kind": "nccl-tuner", **asdict(self)}


def nccl_choices(
    cluster: Cluster, sizes: Iterable[int], operation: str = "all-reduce", itemsize: int = 4
) -> NcclChoices:
    """The fastest choice at each of ``sizes`` (bytes, rising, above 0).

    What is best at a size holds up to the next one. Raises DpsimError as `NcclModel` does, and
    where there is nothing to choose.
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
        _together(list(alike))
        for _, alike in groupby(reaching, key=lambda row: (row.algorithm, row.protocol, row.nccl))
    )
    return NcclChoices(operation, machine.nodes, machine.ranks, rows)


def _models(cluster: Cluster, operation: str, itemsize: int) -> Iterator[NcclModel]:
    """NCCL as it chooses, and held to each algorithm that it can run here."""
    yield NcclModel(cluster, operation=operation, itemsize=itemsize)
    # The other operations have one algorithm each, which is what NCCL takes.
    for name in _HELD_TO if operation == "all-reduce" else ():
        try:
            yield NcclModel(cluster, operation=operation, restriction=name, itemsize=itemsize)
        except DpsimError:
            continue


def _best(models: list[NcclModel], nbytes: int) -> SizeChoice:
    """The choice at one size; no algorithm where there is nothing to choose."""
    chosen = models[0].explain(nbytes)
    # Each algorithm's channels load the fabric in their own way, so that its own model prices it.
    held = models[1:] or models
    rivals = [rival for model in held for rival in model.explain(nbytes).rivals]
    if not rivals:
        return SizeChoice(nbytes, nbytes, "", "", chosen.chosen, 0.0)
    own = next(rival for rival in rivals if rival.name == chosen.chosen)
    fastest = min(rivals, key=lambda rival: rival.predicted)
    gain = 1 - fastest.predicted / own.predicted
    if gain < _LEAST_GAIN:
        fastest, gain = own, 0.0
    algorithm, protocol = fastest.name.split("/")
    return SizeChoice(nbytes, nbytes, algorithm, protocol, own.name, gain)


def _together(alike: list[SizeChoice]) -> SizeChoice:
    """Neighbouring sizes with the same choice as one."""
    gain = max(row.gain for row in alike)
    return replace(alike[0], largest=alike[-1].largest, gain=gain)
