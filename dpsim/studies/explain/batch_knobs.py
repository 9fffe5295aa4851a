"""Knobs of a step's samples: batch, gradient accumulation and activation checkpointing."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from dpsim.engine import memory_use
from dpsim.scenario import Scenario
from dpsim.studies.explain.knob import Change, Options, changed

_BATCH, _PASSES = "workload.batch_per_gpu", "workload.gradient_accumulation"
_SYNCED = "strategy.aggregation.gradients.sync_each_pass"
_KEEPS_MORE = ("none", "selective")  # values of checkpoint, the one that keeps most first


def batch(scenario: Scenario) -> Options:
    """Double the samples of a pass."""
    values = _double_global_batch(scenario, {_BATCH: 2 * scenario.workload.batch_per_gpu})
    return (Change("2x the batch per GPU", values, 2.0),)


def accumulation(scenario: Scenario) -> Options:
    """Double the passes of a step, so that gradients are exchanged half as often per sample."""
    now = scenario.workload.gradient_accumulation
    values = _double_global_batch(scenario, {_PASSES: 2 * now})
    return (Change(f"gradient accumulation {now} -> {2 * now} passes", values, 2.0),)


def _double_global_batch(scenario: Scenario, values: dict[str, Any]) -> dict[str, Any]:
    global_batch = scenario.workload.global_batch
    if global_batch is None:
        return values
    # Set the global batch first, because values are set one by one and passes must stay whole.
    return {"workload.global_batch": 2 * global_batch, **values}


def passes(scenario: Scenario) -> Options:
    """Divide a step's samples into fewer, larger passes."""
    now = scenario.workload.gradient_accumulation
    if now == 1:
        return "a step is one pass"
    return tuple(
        Change(f"gradient accumulation {now} -> {fewer} passes of as many samples", values)
        for fewer, values in _in_passes(scenario)
        if fewer < now
    )


def checkpoint(scenario: Scenario) -> Options:
    """Keep more activations, in smaller passes if memory does not suffice."""
    workload = scenario.workload
    if workload.recompute is None:
        return "all activations are kept already"
    older = {} if workload.checkpointing is None else {"workload.checkpointing": None}
    now = workload.checkpointing or workload.checkpoint
    changes = []
    for kept in _KEEPS_MORE:
        if kept != now:
            values = {**older, "workload.checkpoint": kept}
            words = f"checkpoint {now if isinstance(now, str) else 'in part'} -> {kept}"
            changes.append(_fitting(scenario, Change(words, values)))
    return tuple(changes)


def _fitting(scenario: Scenario, change: Change) -> Change:
    """Return the change with the largest passes that fit, or unchanged if none do."""
    trial = changed(scenario, change.values)
    if memory_use(trial).fits:
        return change
    now = trial.workload.gradient_accumulation
    for number, split in _in_passes(trial):
        for suffix, way in (("", {}), (", which divide their gradients", _sync_each_pass(trial))):
            values = {**change.values, **split, **way}
            if number >= now and memory_use(changed(scenario, values)).fits:
                passes = "1 pass" if number == 1 else f"{number} passes"
                return Change(f"{change.words}, in {passes} of as many samples{suffix}", values)
    return change


def _sync_each_pass(scenario: Scenario) -> dict[str, Any]:
    """Return the values that keep sharded gradients divided over passes."""
    sharded = scenario.strategy.aggregation.sharding_stage is not None
    return {_SYNCED: True} if sharded else {}


def _in_passes(scenario: Scenario) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield each possible number of passes of a step's samples, and the values."""
    workload = scenario.workload
    samples = workload.batch_per_gpu * workload.gradient_accumulation
    # Unset the global batch, which batch and passes determine and may contradict in between.
    stated = {} if workload.global_batch is None else {"workload.global_batch": None}
    for number in range(1, samples + 1):
        if samples % number == 0:
            yield number, {**stated, _BATCH: samples // number, _PASSES: number}
