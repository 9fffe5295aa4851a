"""Knobs of the strategy: library, sharding, codec, and how often models are averaged.

With many workers only the first options are tried, so that no knob takes as long as all others.
"""

from __future__ import annotations

from typing import cast

from dpsim.base.units import plural
from dpsim.engine import prepare
from dpsim.scenario import Scenario, shape_of
from dpsim.strategy.compression import Codec, CompressionConfig
from dpsim.studies.explain.knob import Change, Options, changed

_AFFORDABLE = 2**16  # workers times options
_PERIODS = (4, 16)  # steps between two averagings of models
_STAGES = (1, 2, 3)


def _affordable(changes: list[Change], scenario: Scenario) -> Options:
    most = max(1, _AFFORDABLE // scenario.cluster.ranks)
    return tuple(changes[:most])


def library(scenario: Scenario) -> Options:
    """Switch to the library that auto would choose, or from a library to none."""
    aggregation = scenario.strategy.aggregation
    if "library" not in type(aggregation).model_fields:
        return "what is communicated is no library's collective"
    # Resolve the library, because the scenario may say auto.
    now = prepare(scenario).setting.library
    path = "strategy.aggregation.library"
    if now != "ideal":
        return (
            Change(f"library {now} -> ideal, without the library's overheads", {path: "ideal"}),
        )
    automatic = prepare(changed(scenario, {path: "auto"})).setting.library
    if automatic == "ideal":
        return "no library serves these GPUs and this algorithm, or the network is to be as asked"
    return (Change(f"library ideal -> {automatic}, as it runs", {path: automatic}),)


def sharding(scenario: Scenario) -> Options:
    """Switch to another ZeRO stage, or from an all-reduce to a stage."""
    aggregation = scenario.strategy.aggregation
    now = aggregation.sharding_stage
    if now is None and aggregation.all_reduce is None:
        return "gradients are not all-reduced"
    words = "all-reduce" if now is None else f"stage {now}"
    changes = [
        Change(
            f"{words} -> sharded, stage {stage}",
            {"strategy.aggregation": {"kind": "sharded", "stage": stage}}
            if now is None
            else {"strategy.aggregation.stage": stage},
        )
        for stage in _STAGES
        if stage != now
    ]
    return _affordable(changes, scenario)


def codec(scenario: Scenario) -> Options:
    """Switch to a codec whose loss may make training take more steps."""
    compression = scenario.strategy.compression
    if not compression.exact:
        return f"gradients are compressed already ({compression.kind})"
    models = cast("dict[str, type[Codec]]", shape_of(CompressionConfig).kinds())
    changes = [
        Change(
            f"{kind} gradient compression (changes convergence)",
            {"strategy.compression": {"kind": kind}},
        )
        for kind, model in models.items()
        # Other codecs hardly change the updates, and have a knob of their own.
        if model.takes_more_steps
    ]
    return _affordable(changes, scenario)


def averaging(scenario: Scenario) -> Options:
    """Average models periodically instead of gradients in every step.

    Groups that already do so exchange less often, or overlap the exchange with steps.
    """
    sync = scenario.strategy.sync
    if sync.has_groups:
        return _affordable(_outer_steps(scenario), scenario)
    if sync.difference:
        return f"workers do not meet in every step already ({sync.kind})"
    if scenario.strategy.aggregation.sharding_stage is not None:
        return _affordable(_sharded_in_nodes(scenario), scenario) or (
            "the workers of one node divide the model, and no other node has one"
        )
    changes = [
        Change(
            f"models averaged every {period} steps (changes convergence)",
            {"strategy.sync": {"kind": "local-sgd", "every": period}},
        )
        for period in _PERIODS
    ]
    return _affordable(changes, scenario)


def _sharded_in_nodes(scenario: Scenario) -> list[Change]:
    """Shard a model in each node, and average the nodes' models periodically."""
    if sum(part.nodes for part in scenario.cluster.parts) == 1:
        return []
    groups = {"kind": "local-sgd", "every": 1, "group": "node"}
    return [
        Change(
            f"a model sharded in each node, nodes meet every {period} steps (changes convergence)",
            {"strategy.sync": {**groups, "outer": {"every": period}}},
        )
        for period in _PERIODS
    ]


def _outer_steps(scenario: Scenario) -> list[Change]:
    """Take outer steps half as often, or overlap them with half a period of steps."""
    outer = scenario.strategy.sync.outer_step
    assert outer is not None, "groups have an outer step"
    rarely = Change(
        f"groups meet every {outer.every} -> {2 * outer.every} averagings (changes convergence)",
        {"strategy.sync.outer.every": 2 * outer.every},
    )
    half = outer.every // 2
    if outer.overlap or not half:
        return [rarely]
    words = f"groups meet beside {plural(half, 'step')} (changes convergence)"
    return [rarely, Change(words, {"strategy.sync.outer.overlap": half})]
