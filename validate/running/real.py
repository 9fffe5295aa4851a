"""A scenario's strategy with real computing: a small network learns scikit-learn's digits on each rank's share of the processor.

The prediction is for that network: its layers are measured on one rank alone first. Ranks beyond the cores then share them, which
the prediction does not know of.
"""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from dpsim.engine.steps import Steps
from dpsim.errors import DpsimError
from dpsim.scenario import Scenario
from dpsim.terminal import write_whole
from validate.emulate import Case, Measured
from validate.emulate.layout import Layout, layout
from validate.launch import RunFailed, connected, launch, loopback, record
from validate.microbench import Settings, launched, profile
from validate.processes import joined
from validate.running.runs import PartialRunError, extended
from validate.running.step_run import StepRun, step_run
from validate.testbed import Testbed
from validate.training import Method, Training, method_named, train

WIDTH = 64  # channels: 84,000 parameters, 0.3 MB of gradients
_TIMEOUT_S = 300.0
_FACTORY = "validate.running.real:network"


def network() -> Any:
    """The network that learns, without arguments, as microbenchmarks build it."""
    from validate.training.models import cnn

    return cnn(WIDTH)


def method_of(scenario: Scenario) -> Method:
    """The method of `validate.training` that does what the scenario's strategy says. Raises DpsimError where there is none."""
    strategy = scenario.strategy
    aggregation, sync, overlap, codec = strategy.aggregation, strategy.sync, strategy.overlap, strategy.compression
    disturbed = [name for name, value in scenario.disturbance.model_dump().items() if value]
    if disturbed:
        raise DpsimError(f"disturbance must be left out with real computing, but got {disturbed[0]}")
    known: dict[tuple[str, str, bool], Callable[[], Method | None]] = {
        ("allreduce", "bsp", True): lambda: method_named("compressed", codec=codec),
        ("allreduce", "bsp", False): lambda: _all_reduced(scenario),
        ("allreduce", "local-sgd", False): lambda: _averaged(scenario),
        ("gossip", "bsp", False): lambda: method_named("gossip", graph=getattr(aggregation, "graph", "ring")),
        ("gossip", "asp", False): lambda: method_named("ad-psgd"),
        **{("parameter-server", kind, False): lambda: _at_servers(scenario) for kind in ("bsp", "ssp", "asp", "backup")},
    }
    found = known.get((aggregation.kind, sync.kind, codec.kind != "none"), _nothing)()
    if found is None:
        raise DpsimError(
            "strategy must be one with a method for real computing (all-reduce with bsp by buckets, in sequence or compressed; "
            "parameter servers in sequence; local-sgd; gossip), "
            f"but got {aggregation.kind}, {sync.kind}, {overlap.kind}, {codec.kind}"
        )
    return found


def _nothing() -> None:
    """The method where there is none."""


def _all_reduced(scenario: Scenario) -> Method | None:
    aggregation, overlap = scenario.strategy.aggregation, scenario.strategy.overlap
    if overlap.kind == "buckets":
        return method_named("buckets", **{name: f"{getattr(overlap, name)!r} B" for name in ("bucket_size", "first_bucket")})
    if overlap.kind == "sequential" and getattr(aggregation, "library", "") == "ideal":
        return method_named("schedule", algorithm=getattr(aggregation, "algorithm", "ring"))
    return None


def _averaged(scenario: Scenario) -> Method | None:
    sync = scenario.strategy.sync
    if getattr(sync, "unit", "") != "steps":
        return None
    return method_named("local-sgd", every=getattr(sync, "every", 1), switch=getattr(sync, "switch_after", 0))


def _at_servers(scenario: Scenario) -> Method | None:
    sync, servers = scenario.strategy.sync, layout(scenario).servers
    if scenario.strategy.overlap.kind != "sequential":
        return None
    if sync.kind == "backup":
        return method_named("backup", spare=getattr(sync, "backups", 1)) if servers == 1 else None
    return method_named("parameter-server", servers=servers, sync=sync.kind, staleness=getattr(sync, "staleness", 0))


def real_run(case: Case, *, timeout_s: float | None = None) -> StepRun:
    """Run ``case`` on its testbed with real computing, beside the prediction for the network that learns.

    Raises PartialRunError where a rank fails, DpsimError for what has no method or no testbed.
    """
    scenario = case.scenario()
    method_of(scenario)
    if scenario.testbed is None:
        raise DpsimError(f"{case.file}: testbed must be in the scenario or given by --testbed, but is not")
    with tempfile.TemporaryDirectory(prefix="dpsim-real-") as folder:
        file = Path(folder) / "digits.json"
        write_whole(file, _measured_profile(scenario.workload.batch_per_gpu))
        workload = {"model": {"profile": str(file)}, "batch_per_gpu": scenario.workload.batch_per_gpu}
        own = Case(case.file, (*case.set, f"workload={json.dumps(workload)}"))
        config, placed = extended(scenario.testbed, layout(scenario))
        failed = ""
        command = [sys.executable, "-m", "validate.running.real", json.dumps([case.file, case.set])]
        with Testbed(config) as up:
            try:
                records = launch(command, [up.hosts[host] for host in placed.hosts], timeout_s=timeout_s or _TIMEOUT_S).records
            except RunFailed as error:
                failed, records = str(error), error.run.records
        found = step_run(own, [Measured(_steps(records, placed), {})] if records else [], failed)
    if failed or found is None:
        raise PartialRunError(failed or "no rank has recorded anything", [found] if found else [])
    return found


def _training(scenario: Scenario) -> Training:
    run = scenario.run
    steps, batch = run.warmup + run.steps, scenario.workload.batch_per_gpu
    return Training(width=WIDTH, precision="float32", steps=steps, batch=batch, seed=run.seed)


def _measured_profile(batch: int) -> str:
    """The network's layers as one rank alone computes them."""
    settings = Settings(what=("layers",), model=_FACTORY, input=(1, 8, 8), batch_sizes=(batch,)).checked()
    run = launched(settings, loopback(1), lambda what, done, total: None)
    return profile(run.of("layers"), run.settings).to_json()


def _steps(records: Sequence[Mapping[str, Any]], placed: Layout) -> Steps:
    """Communication is not told from waiting for others; what methods do beside computing counts with it."""
    workers = [row for row in sorted(records, key=lambda row: row["rank"]) if row["rank"] < placed.workers]
    whole = min(len(row["step_s"]) for row in workers)
    steps = Steps.empty(whole, len(workers))
    steps.exposed_comm[:] = np.array([row["parts_s"]["communication"][:whole] for row in workers]).T
    steps.compute[:] = np.array([row["step_s"][:whole] for row in workers]).T - steps.exposed_comm
    return steps


def as_rank(text: str) -> None:
    """What `real_run` starts: one rank's training, and its record."""
    scenario = Case(*json.loads(text)).scenario()
    with joined("gloo", "cpu") as world:
        connected()
        said = train(method_of(scenario), world, _training(scenario)).summary()
        record({key: said[key] for key in ("step_s", "parts_s", "losses")})


if __name__ == "__main__":
    as_rank(sys.argv[1])
