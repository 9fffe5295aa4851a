"""Costs of strategies beside collectives: torch's wrappers of a model, and parameter servers.

Both are measured by running scenarios. The difference between a step of a bare model and one in a
wrapper without communication is the wrapper's copies and calls. The cost of servers is measured
with workers that hardly compute, and push and pull all weights.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
from torch import nn

from dpsim.hardware import Measured, MeasuredModel, Parameter
from dpsim.workload import MODELS
from validate.microbench.models import FACTORY_OF, subject
from validate.microbench.settings import Settings
from validate.microbench.steps import UPDATE
from validate.node.hardware import Here, cluster_here
from validate.node.items import Item
from validate.node.rows import Attempt, usual_s

SERVERS = 1
_WIDTH = 64
_RUN = {"steps": 20, "warmup": 3, "allow_out_of_memory": True}
_SEQUENTIAL = "strategy.overlap.kind=sequential"
_WRAPPERS = {
    "plain": (_SEQUENTIAL,),
    "ddp": ("strategy.overlap.kind=buckets",),
    "fsdp2": ("strategy.aggregation.kind=sharded",),
}


def _embedding(nbytes: int) -> nn.Module:
    """Return a model that sends all its weights but hardly computes: one row per step."""
    return nn.Sequential(nn.Embedding(nbytes // 4 // _WIDTH, _WIDTH))


# By the scenarios' names: their bytes in fp32.
kib64, kib256, mib1, mib4 = (partial(_embedding, 2**power) for power in (16, 18, 20, 22))
SIZES = {"kib64": 2**16, "kib256": 2**18, "mib1": 2**20, "mib4": 2**22}


def wrapped_item(
    node: Here, ranks: int, backend: str, model: str, precision: str, batch: int, seconds: float
) -> Item:
    """Return steps of ``model`` without and in torch's wrappers, without communication."""
    source: Any = model
    if model not in MODELS:
        own = subject(Settings(what=("layers",), model=model))
        factory = FACTORY_OF.get(model, model)
        source = {"torch": factory, "input": list(own.shape), "dtype": own.dtype}
    workload = {
        "model": source,
        "batch_per_gpu": batch,
        "precision": precision,
        "optimizer": UPDATE,
    }
    return Item(
        name=f"{model} in {precision} wrapped by {ranks} ranks",
        ranks=ranks,
        backend=backend,
        seconds=seconds,
        scenario={
            "name": "here",
            "cluster": cluster_here(node, ranks),
            "workload": workload,
            "run": _RUN,
        },
        variants=_WRAPPERS,
        alone=True,
    )


def served_item(node: Here, workers: int, backend: str, seconds: float) -> Item:
    """Return pushes and pulls of weights of several sizes, by ``workers`` and a server."""
    aggregation = {"kind": "parameter-server", "servers": SERVERS, "colocated": False}
    workload = {"model": {"torch": _factory("kib64"), "input": [1], "dtype": "int64"}}
    return Item(
        name=f"pushes and pulls by {workers} ranks and {SERVERS} server",
        ranks=workers + SERVERS,
        backend=backend,
        seconds=seconds,
        scenario={
            "name": "here",
            "cluster": cluster_here(node, workers),
            "workload": {**workload, "batch_per_gpu": 1, "optimizer": "sgd"},
            "strategy": {"aggregation": aggregation, "overlap": {"kind": "sequential"}},
            "run": _RUN,
        },
        variants={name: (f"workload.model.torch={_factory(name)}",) for name in SIZES},
    )


def _factory(name: str) -> str:
    return f"validate.node.strategies:{name}"


def with_wrappers(
    models: Iterable[MeasuredModel], carried: Sequence[tuple[Item, Attempt]]
) -> list[MeasuredModel]:
    """Return ``models`` with the added time of wrappers, if measured."""
    added: dict[tuple[str, str], dict[str, Parameter]] = {}
    for item, attempt in carried:
        if item.alone and item.scenario is not None:
            seconds = _alone(attempt)
            plain = seconds.pop("plain", None)
            if plain is not None:
                workload = item.scenario["workload"]
                name = item.name.partition(" in ")[0]
                added[name, workload["precision"]] = {
                    # A wrapper that seems to save time has cost none.
                    wrapper: Parameter(value=max(own - plain, 0.0), unit="s")
                    for wrapper, own in seconds.items()
                }
    wrapped = []
    for model in models:
        # Wrappers were measured around eager passes.
        eager = model.software.get("execution", "eager") == "eager"
        own = added.get((model.model, str(model.precision))) if eager else None
        wrapped.append(model.model_copy(update={"wrapped": own or {}}))
    return wrapped


def _alone(attempt: Attempt) -> dict[str, float]:
    """Return a step's seconds by variant: the median over all ranks, in the fastest turn."""
    steps: dict[str, dict[int, list[float]]] = defaultdict(lambda: defaultdict(list))
    for row in attempt.rows:
        steps[row["variant"]][row["turn"]] += row["alone_s"]
    return {
        name: min(float(np.median(turn)) for turn in turns.values())
        for name, turns in steps.items()
    }


def served_tables(found: Sequence[tuple[Item, Attempt]]) -> list[Measured]:
    """Return tables of pushes and of pulls, each with half the time of a step for both."""
    return [
        table
        for item, attempt in found
        if item.variants and not item.alone
        for table in _tables(item, attempt)
    ]


def _tables(item: Item, attempt: Attempt) -> list[Measured]:
    workers = item.ranks - SERVERS
    taken: dict[int, list[float]] = defaultdict(list)
    for row in attempt.rows:
        if row["rank"] < workers:
            taken[SIZES[row["variant"]]] += _steps(row)
    if not taken:
        return []
    common = {
        "ranks": workers,
        "hosts": len({place["host"] for place in attempt.world["ranks"]}),
        "devices": tuple(dict.fromkeys(p["device_name"] for p in attempt.world["ranks"])),
        "sizes_bytes": tuple(sorted(taken)),
        "times_s": tuple(usual_s(taken[size]) / 2 for size in sorted(taken)),
        "backend": attempt.world["backend"],
        "servers": SERVERS,
    }
    return [Measured(operation=operation, **common) for operation in ("push", "pull")]


def _steps(row: Mapping[str, Any]) -> list[float]:
    # The first step pulls from an idle server, and the last one does not pull.
    own: list[float] = row["parts_s"]["communication"][_RUN["warmup"] : -1]
    return own
