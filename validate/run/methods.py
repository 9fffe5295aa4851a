"""The method of `validate.training` that runs a scenario's strategy for real."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from dpsim.base.errors import DpsimError
from dpsim.engine import prepare
from dpsim.network.libraries import TRAITS, chooses, default_algorithm
from dpsim.scenario import Scenario
from validate.emulate import placement
from validate.training import Method, method_named


def method_of(scenario: Scenario) -> Method:
    """Return the method of the scenario's strategy.

    Raises DpsimError if there is none.
    """
    _check_network(scenario)
    strategy = scenario.strategy
    aggregation, sync, codec = strategy.aggregation, strategy.sync, strategy.compression
    # A codec changes what is summed, so it needs other methods.
    known = _PLAIN if codec.exact else _COMPRESSED
    choose = known.get((aggregation.kind, sync.kind))
    method = None if choose is None else choose(scenario)
    if method is None:
        raise DpsimError(
            "strategy must be one with a method for real computing (all-reduce with bsp in "
            "sequence, or with gloo or a ring by buckets, compressed, local-sgd or sma of one "
            "learner; parameter servers in sequence; gossip), "
            f"but got {aggregation.kind}, {sync.kind}, {strategy.overlap.kind}, {codec.kind}"
        )
    return method


def _check_network(scenario: Scenario) -> None:
    for name in ("background", "links"):
        if getattr(scenario.disturbance, name):
            raise DpsimError(
                f"disturbance.{name}: must be left out of real runs, but got "
                f"{len(getattr(scenario.disturbance, name))}"
            )


def _by_ring(scenario: Scenario) -> bool:
    """Return whether the scenario asks for the backend's own all-reduce (gloo's is a ring)."""
    aggregation: Any = scenario.strategy.aggregation
    by_ring = aggregation.algorithm in (None, "ring")
    library = library_of(scenario)
    return _is_torchs(library) or (not chooses(library) and by_ring)


def _is_torchs(library: str) -> bool:
    """Return whether torch's own all-reduce, by the ranks' backend, is that library's."""
    return library in TRAITS and TRAITS[library].in_torch


def library_of(scenario: Scenario) -> str:
    """Return the all-reduce's library; for "auto", its choice on the scenario's cluster."""
    library = getattr(scenario.strategy.aggregation, "library", "")
    return prepare(scenario).setting.library if library == "auto" else library


def _all_reduce_method(scenario: Scenario) -> Method | None:
    overlap, aggregation = scenario.strategy.overlap, scenario.strategy.aggregation
    passes = scenario.workload.gradient_accumulation
    if not aggregation.rebuilds_buckets or (passes > 1 and aggregation.reduces_each_pass):
        return None
    if overlap.size_of_buckets is not None and _by_ring(scenario):
        return method_named(
            "buckets",
            # repr, so that no digit of a size is lost in its text.
            **{name: f"{getattr(overlap, name)!r} B" for name in ("bucket_size", "first_bucket")},
        )
    if overlap.overlaps:
        return None
    library = library_of(scenario)
    if not chooses(library):
        algorithm = getattr(aggregation, "algorithm", None) or default_algorithm(library)
        return method_named("schedule", algorithm=algorithm)
    return method_named("library") if _is_torchs(library) else None


def _compressed_method(scenario: Scenario) -> Method | None:
    if not _by_ring(scenario):
        return None
    return method_named("compressed", codec=scenario.strategy.compression)


def _averaging_method(scenario: Scenario) -> Method | None:
    sync: Any = scenario.strategy.sync
    outer = sync.outer_step
    whole = outer is None or outer.compression.exact
    if sync.unit != "steps" or not whole or not _by_ring(scenario):
        return None
    return method_named(
        "local-sgd",
        every=sync.every,
        switch=sync.switch_after,
        **_in_groups(scenario),
    )


def _in_groups(scenario: Scenario) -> dict[str, Any]:
    """Return the averaging groups, and the outer step of all of them, if the scenario has them."""
    sync: Any = scenario.strategy.sync
    outer = sync.outer
    if outer is None:
        return {}
    group = scenario.cluster.mesh.size(sync.group, "strategy.sync.group")
    step = {
        "every": outer.every,
        "learning_rate": outer.rate,
        "momentum": outer.momentum_factor,
        "fragments": outer.fragments,
        "overlap": outer.overlap,
    }
    return {"group": group, "outer": step}


def _drawn_together(scenario: Scenario) -> Method | None:
    sync: Any = scenario.strategy.sync
    if scenario.workload.learners_per_gpu > 1 or not _by_ring(scenario):
        return None
    return method_named(
        "sma",
        learners=1,
        correction=sync.correction,
        momentum=sync.momentum,
    )


def _with_backups(scenario: Scenario) -> Method | None:
    sync: Any = scenario.strategy.sync
    if scenario.strategy.overlap.overlaps or placement(scenario).servers != 1:
        return None
    return method_named("backup", spare=sync.backups)


def _at_servers(scenario: Scenario) -> Method | None:
    sync, servers = scenario.strategy.sync, placement(scenario).servers
    if scenario.strategy.overlap.overlaps:
        return None
    return method_named(
        "parameter-server", servers=servers, sync=sync.kind, staleness=getattr(sync, "staleness", 0)
    )


def _gossip(scenario: Scenario) -> Method | None:
    aggregation: Any = scenario.strategy.aggregation
    return method_named("gossip", graph=aggregation.graph)


def _in_pairs(scenario: Scenario) -> Method | None:
    return method_named("ad-psgd")


# The function that chooses the method, or None, by kinds of aggregation and sync. A function is
# called only for its own kinds, whose fields it reads.
_PLAIN: Mapping[tuple[str, str], Callable[[Scenario], Method | None]] = {
    ("allreduce", "bsp"): _all_reduce_method,
    ("allreduce", "local-sgd"): _averaging_method,
    ("allreduce", "sma"): _drawn_together,
    ("gossip", "bsp"): _gossip,
    ("gossip", "asp"): _in_pairs,
    ("parameter-server", "bsp"): _at_servers,
    ("parameter-server", "ssp"): _at_servers,
    ("parameter-server", "asp"): _at_servers,
    ("parameter-server", "backup"): _with_backups,
}
_COMPRESSED: Mapping[tuple[str, str], Callable[[Scenario], Method | None]] = {
    ("allreduce", "bsp"): _compressed_method,
}
