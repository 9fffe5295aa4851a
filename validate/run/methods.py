"""Which method of `validate.training` does for real what a scenario's strategy says."""

from __future__ import annotations

from collections.abc import Callable

from dpsim.base.errors import DpsimError
from dpsim.scenario import Scenario
from validate.emulate import placement
from validate.training import Method, method_named


def method_of(scenario: Scenario) -> Method:
    """The method that does what the scenario's strategy says.

    Raises DpsimError where there is none.
    """
    _check_network(scenario)
    strategy = scenario.strategy
    aggregation, sync, codec = strategy.aggregation, strategy.sync, strategy.compression
    known: dict[tuple[str, str, bool], Callable[[], Method | None]] = {
        ("allreduce", "bsp", True): lambda: (
            method_named("compressed", codec=codec) if _by_ring(scenario) else None
        ),
        ("allreduce", "bsp", False): lambda: _all_reduced(scenario),
        ("allreduce", "local-sgd", False): lambda: _averaged(scenario),
        ("allreduce", "sma", False): lambda: _drawn_together(scenario),
        ("gossip", "bsp", False): lambda: method_named(
            "gossip", graph=getattr(aggregation, "graph", "ring")
        ),
        ("gossip", "asp", False): lambda: method_named("ad-psgd"),
        **{
            ("parameter-server", kind, False): lambda: _at_servers(scenario)
            for kind in ("bsp", "ssp", "asp", "backup")
        },
    }
    found = known.get((aggregation.kind, sync.kind, codec.kind != "none"), _nothing)()
    if found is None:
        raise DpsimError(
            "strategy must be one with a method for real computing (all-reduce with bsp in "
            "sequence, or with gloo or a ring by "
            "buckets, compressed, local-sgd or sma of one learner; parameter servers in sequence; "
            "gossip), "
            f"but got {aggregation.kind}, {sync.kind}, {strategy.overlap.kind}, {codec.kind}"
        )
    return found


def _check_network(scenario: Scenario) -> None:
    for name in ("background", "links"):
        if getattr(scenario.disturbance, name):
            raise DpsimError(
                f"disturbance.{name}: must be left out of real runs, but got "
                f"{len(getattr(scenario.disturbance, name))}"
            )


def _nothing() -> None:
    """The method where there is none."""


def _by_ring(scenario: Scenario) -> bool:
    """Whether gloo's own all-reduce, a ring, is what the scenario asks for."""
    aggregation = scenario.strategy.aggregation
    library = getattr(aggregation, "library", "")
    return library == "gloo" or (
        library == "ideal" and getattr(aggregation, "algorithm", "") == "ring"
    )


def _all_reduced(scenario: Scenario) -> Method | None:
    aggregation, overlap = scenario.strategy.aggregation, scenario.strategy.overlap
    if overlap.kind == "buckets" and _by_ring(scenario):
        return method_named(
            "buckets",
            **{name: f"{getattr(overlap, name)!r} B" for name in ("bucket_size", "first_bucket")},
        )
    if overlap.kind != "sequential":
        return None
    library = getattr(aggregation, "library", "")
    if library == "ideal":
        return method_named("schedule", algorithm=getattr(aggregation, "algorithm", "ring"))
    return method_named("library") if library == "gloo" else None


def _averaged(scenario: Scenario) -> Method | None:
    sync = scenario.strategy.sync
    if getattr(sync, "unit", "") != "steps" or not _by_ring(scenario):
        return None
    return method_named(
        "local-sgd", every=getattr(sync, "every", 1), switch=getattr(sync, "switch_after", 0)
    )


def _drawn_together(scenario: Scenario) -> Method | None:
    sync = scenario.strategy.sync
    if scenario.workload.learners_per_gpu > 1 or not _by_ring(scenario):
        return None
    return method_named(
        "sma",
        learners=1,
        pull=getattr(sync, "correction", None),
        inertia=getattr(sync, "momentum", 0.9),
    )


def _at_servers(scenario: Scenario) -> Method | None:
    sync, servers = scenario.strategy.sync, placement(scenario).servers
    if scenario.strategy.overlap.kind != "sequential":
        return None
    if sync.kind == "backup":
        return method_named("backup", spare=getattr(sync, "backups", 1)) if servers == 1 else None
    return method_named(
        "parameter-server", servers=servers, sync=sync.kind, staleness=getattr(sync, "staleness", 0)
    )
