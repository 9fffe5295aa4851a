"""One collective over sizes: the rows of ``dpsim collective``, with the columns of nccl-tests."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from dpsim.base.arrays import FloatArray
from dpsim.base.budget import limited
from dpsim.base.errors import DpsimError
from dpsim.base.lazy import Shown
from dpsim.base.uncertainty import PredictionInterval
from dpsim.base.units import DATA, parse
from dpsim.collectives import OPERATIONS, algorithm_names
from dpsim.engine import reduction_cost
from dpsim.hardware import nodes as known_nodes
from dpsim.network import (
    CollectiveModel,
    MessageCosts,
    ModelKind,
    automatic_library,
    named_model,
)
from dpsim.network.libraries import default_algorithm
from dpsim.scenario import (
    Document,
    Scenario,
    apply_overrides,
    full_path,
    load_scenario,
    validate,
)
from dpsim.topology import Cluster, Network, build_cluster

_BINARY = {"": 1, "k": 2**10, "m": 2**20, "g": 2**30, "t": 2**40}
_MOST_BYTES = 2**50


@dataclass(frozen=True, slots=True)
class CollectiveRow:
    """The time of one algorithm at one size: s from time 0 until the last rank is done.

    Rates are in B/s, traffic in bytes. ``used`` is the algorithm that ``auto`` chose at this size,
    otherwise ``algorithm``. ``max_utilisation`` is the busiest link's share of its rate.
    ``interval`` is that of the time, None on a switch described by its numbers.
    ``nearest_machines`` are the measured machines whose residuals correct the model, if any do.
    """

    bytes: int
    algorithm: str
    used: str
    time_s: float
    algbw_Bps: float
    busbw_Bps: float
    bytes_sent_busiest: int
    bytes_sent_and_received_busiest: int
    bytes_sent_total: int
    library: str
    max_utilisation: float
    interval: PredictionInterval | None
    nearest_machines: tuple[str, ...] | None

    def to_json(self) -> dict[str, Any]:
        """Return the fields by name, with the interval's ``extrapolated`` beside them."""
        fields = {name: getattr(self, name) for name in self.__slots__ if name != "interval"}
        fields["nearest_machines"] = (
            None if self.nearest_machines is None else list(self.nearest_machines)
        )
        if self.interval is None:
            return {**fields, "interval_s": None, "extrapolated": []}
        interval = self.interval.to_json()
        return {**fields, "extrapolated": interval.pop("extrapolated"), "interval_s": interval}


@dataclass(frozen=True, slots=True)
class CollectiveTimes(Shown):
    """The times of algorithms over sizes, in the requested order."""

    rows: tuple[CollectiveRow, ...]

    def __repr__(self) -> str:
        names = ", ".join(dict.fromkeys(row.algorithm for row in self.rows))
        return f"<CollectiveTimes of {len(self.rows)} sizes by {names}>"

    def to_json(self) -> dict[str, Any]:
        """Return the JSON object of ``dpsim collective``."""
        rows = [row.to_json() for row in self.rows]
        return {"schema_version": 1, "kind": "collective", "rows": rows}


def algorithms_named(names: str, operation: str) -> list[str]:
    """Return the algorithms in a comma-separated list, or all of the operation for "all"."""
    names_known = algorithm_names(operation)
    # "ring" is the default, even for an operation whose only algorithm has another name.
    only_one = operation != "all-reduce" and len(names_known) == 1
    if names == "all" or (names == "ring" and only_one):
        return list(names_known)
    return [name.strip() for name in names.split(",")]


def collective_times(
    network: Network,
    sizes: Iterable[int],
    algorithms: Iterable[str] | None = None,
    library: str | None = None,
    *,
    operation: str = "all-reduce",
    kind: ModelKind = "auto",
    costs: MessageCosts | None = None,
    starts: FloatArray | None = None,
    itemsize: int = 4,
) -> CollectiveTimes:
    """Time ``algorithms``, by default the library's choice, like `collective_rows`.

    ``library``: by default "ideal" for named algorithms, which are compared as schedules, otherwise
    "auto", which is resolved for each algorithm.
    """
    named = list(algorithms or ())
    library = library or ("ideal" if named else "auto")

    def library_for(algorithm: str) -> str:
        if library != "auto":
            return library
        # A requested network model belongs to no library.
        if kind != "auto":
            return "ideal"
        return automatic_library(algorithm, network, operation=operation).library

    with limited():
        chosen = [(name, library_for(name)) for name in named]
        if not chosen:
            resolved = library_for("auto")
            chosen = [(algorithms_named(default_algorithm(resolved), operation)[0], resolved)]
        rows: list[CollectiveRow] = []
        for name, resolved in chosen:
            rows += collective_rows(
                network,
                [name],
                sizes,
                operation=operation,
                kind=kind,
                costs=costs,
                starts=starts,
                itemsize=itemsize,
                library=resolved,
            )
    return CollectiveTimes(tuple(rows))


def collective_rows(
    network: Network,
    algorithms: Iterable[str],
    sizes: Iterable[int],
    *,
    operation: str = "all-reduce",
    kind: ModelKind = "auto",
    costs: MessageCosts | None = None,
    starts: FloatArray | None = None,
    itemsize: int = 4,
    library: str = "ideal",
) -> Iterator[CollectiveRow]:
    """Time every algorithm at every size (bytes of a rank's vector) on ``network``.

    Ranks enter at ``starts`` (s), by default all at time 0.
    """
    begin = np.zeros(network.ranks) if starts is None else starts
    bus_factor = OPERATIONS[operation].bus_factor(network.ranks)
    for name in algorithms:
        model = named_model(
            kind,
            name,
            network,
            costs,
            operation=operation,
            common_start=starts is None,
            itemsize=itemsize,
            library=library,
        )
        for size in sizes:
            yield _row(name, library, model, size, begin, bus_factor)


def _row(
    name: str,
    library: str,
    model: CollectiveModel,
    size: int,
    begin: FloatArray,
    bus_factor: float,
) -> CollectiveRow:
    """Time one size on ranks that enter at ``begin`` (s)."""
    outcome = model.finish(begin, size)
    time = float(outcome.finishes.max())
    rate = size / time if time > 0 else 0.0
    # Seconds that the busiest link needs for its bytes.
    busy = float((outcome.loads / model.network.capacities).max(initial=0.0))
    moved = model.traffic(size)
    # Models were measured on clusters, not on switches described by their numbers.
    measured = isinstance(model.network, Cluster)
    return CollectiveRow(
        bytes=size,
        algorithm=name,
        used=model.algorithm_for(size),
        time_s=time,
        algbw_Bps=rate,
        busbw_Bps=rate * bus_factor,
        bytes_sent_busiest=moved.busiest,
        bytes_sent_and_received_busiest=moved.busiest_both_ways,
        bytes_sent_total=moved.total,
        library=library,
        # Nothing is sent before the first start.
        max_utilisation=busy / (time - float(begin.min())) if busy else 0.0,
        interval=model.model_error(size).around(time) if measured else None,
        nearest_machines=model.nearest_machines,
    )


def named_cluster(
    name: str, nodes: int | None, overrides: Sequence[str] = ()
) -> tuple[Cluster, float]:
    """Return the cluster of `named_scenario` and its GPUs' reduction cost, in seconds per byte."""
    config = named_scenario(name, nodes, overrides).cluster
    return build_cluster(config), reduction_cost(config.accelerator)


def named_scenario(name: str, nodes: int | None, overrides: Sequence[str] = ()) -> Scenario:
    """Return the scenario in the file ``name``, or one on nodes of that name.

    ``nodes`` replaces the file's number of nodes; 1 for a node's name. ``overrides``: ``key=value``
    of its cluster or run. Raises DpsimError if ``name`` is neither a file nor a node, and for
    overrides of other fields.
    """
    for text in overrides:
        if not chosen_path(text).startswith(("cluster.", "run.")):
            raise DpsimError(f"--set: must be a field of cluster or run, but got {text!r}")
    if name.endswith((".yaml", ".yml")):
        own = [] if nodes is None else [f"cluster.nodes={nodes}"]
        return load_scenario(name, [*own, *overrides])
    known_nodes()[name]  # raises for an unknown node
    # A scenario requires a model, although the collective does not use it.
    values = {
        "name": name,
        "cluster": {"nodes": nodes or 1, "node": name},
        "workload": {"model": "resnet50", "batch_per_gpu": 1},
    }
    return validate(apply_overrides(Document.of(values, name), overrides, Scenario), Scenario)


def chosen_path(override: str) -> str:
    """Return the full path of a ``key=value`` override."""
    return full_path(override.partition("=")[0].strip(), Scenario)


def exponential_starts(ranks: int, mean: float, seed: int) -> FloatArray:
    """Return exponentially distributed start times of the ranks, with the given mean (s)."""
    return np.random.default_rng(seed).exponential(mean, ranks)


def parse_size(text: str) -> int:
    """Parse a size in bytes, written as nccl-tests does or with a unit.

    nccl-tests' ``8``, ``4K``, ``128M`` and ``8G`` are binary; units are as in ``100 MB`` or ``1
    MiB``. Raises DpsimError for anything else, and for more than 1 PiB.
    """
    match = re.fullmatch(r"\s*(\d{1,16})\s*([kKmMgGtT]?)\s*", text)
    size = int(match[1]) * _BINARY[match[2].lower()] if match else round(parse(text, DATA))
    if not 0 <= size <= _MOST_BYTES:
        raise DpsimError(f"must be a size from 0 to 1 PiB, but got {text!r}")
    return size


def size_range(begin: int, end: int, factor: float) -> list[int]:
    """Return the sizes from ``begin`` to ``end``, each ``factor`` times the one before.

    Raises DpsimError for a range that is empty, never ends or has more than 10,000 sizes.
    """
    if begin > end:
        raise DpsimError(f"begin must be at most the end of {end} bytes, but got {begin} bytes")
    if begin < end and (factor <= 1 or begin == 0):
        raise DpsimError(
            "sizes must grow from a begin above 0 by a factor above 1, but got a begin of "
            f"{begin} bytes and a factor of {factor:g}"
        )
    sizes = [begin]
    while sizes[-1] * factor <= end:
        # With a factor close to 1, rounding could repeat a small size forever.
        sizes.append(max(round(sizes[-1] * factor), sizes[-1] + 1))
        if len(sizes) > 10_000:
            raise DpsimError(
                f"must give at most 10,000 sizes, but factor {factor:g} from {begin} to {end} "
                "gives more"
            )
    return sizes
