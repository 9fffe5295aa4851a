"""Remedies for a model that does not fit: the smallest changes, or the GPUs to split it over."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import product

from dpsim.base.errors import DpsimError
from dpsim.workload.layer import Model
from dpsim.workload.memory import (
    CONTEXT,
    FRAGMENTATION,
    STAGE_NAMES,
    STAGES,
    Setup,
    footprint,
    largest_batch,
)

_MOST_GPUS = 2**20
_ORDER = ("learners", "stage", "checkpointing", "batch")


@dataclass(frozen=True, slots=True)
class LeastSplit:
    """The least GPUs to split a model over: for its weights alone, and to train one sample."""

    weights: int
    training: int


def least_split(model: Model, setup: Setup, capacity: float) -> LeastSplit:
    """Return the least number of GPUs of ``capacity`` bytes over which to split the model.

    A lower bound: every part splits evenly. Raises DpsimError if the context fills the GPU.
    """
    usable = (capacity - CONTEXT) / (1 + FRAGMENTATION)
    if usable <= 0:
        raise DpsimError(
            f"memory must be more than the {CONTEXT:.3g} B of the framework's context, but got "
            f"{capacity:.4g} B"
        )
    # The least memory for training: one sample, everything checkpointed.
    one_worker = replace(_fully_checkpointed(setup), batch=1, stage=0, workers=1, learners=1)
    needs = footprint(model, one_worker)
    held = needs.model_state + needs.activations + needs.loss
    # The bound for weights leaves out even the context.
    return LeastSplit(math.ceil(needs.weights / capacity), math.ceil(held / usable))


def gpus_to_shard_over(model: Model, setup: Setup, capacity: float) -> int | None:
    """Return the least number of GPUs of ``capacity`` bytes over which the sharded state fits.

    All of the state is sharded over all GPUs, with activations checkpointed and one sample per
    pass. Returns None if no number suffices, or if learners share a GPU.
    """
    if setup.learners > 1:
        return None

    def fits(workers: int) -> bool:
        shards = replace(setup, workers=workers, stage=len(STAGES) - 1, shard_group=None)
        least = replace(_fully_checkpointed(shards), batch=1)
        return footprint(model, least).fits(capacity)

    if not fits(_MOST_GPUS):
        return None
    # Bisection: more GPUs hold less each.
    return bisect_left(range(1, _MOST_GPUS), True, key=fits) + 1


def longest_sequence(
    of_length: Callable[[int], Model], setup: Setup, capacity: float, longest: int
) -> int:
    """Return the longest sequence up to ``longest`` with which a model fits by all remedies.

    A multiple of 1,024 tokens, or of 64 if ``longest`` is short; 0 if nothing fits. ``of_length``
    returns the model for a sequence length.
    """
    grain = 1024 if longest > 1024 else 64
    lengths = range(grain, longest + 1, grain)
    # The least memory: one sample, full checkpointing, full sharding.
    stage = STAGES[-1] if _is_shardable(setup) else setup.stage
    least = replace(_fully_checkpointed(setup), batch=1, stage=stage)

    def is_too_long(length: int) -> bool:
        return not footprint(of_length(length), least).fits(capacity)

    fitting = bisect_left(lengths, True, key=is_too_long)
    return lengths[fitting - 1] if fitting else 0


@dataclass(frozen=True, slots=True)
class Remedy:
    """Changes with which a model fits: the fields of `Setup` to replace."""

    text: str
    changes: dict[str, int | bool]


def remedies(model: Model, setup: Setup, capacity: float) -> list[Remedy]:
    """Return the smallest changes that make a model fit, as few at once as suffice, if any do.

    In this order: fewer learners, a stage (the lowest that suffices), checkpointing, smaller
    passes.
    """
    found: list[Remedy] = []
    fewer = _fewer_learners(model, setup, capacity)
    if fewer:
        text = f"run {fewer} on each GPU instead of {setup.learners} learners"
        found.append(Remedy(text, {"learners": fewer}))
    found += _changes(model, setup, capacity)
    least = min((len(remedy.changes) for remedy in found), default=0)
    # The first of those that change the same fields is the mildest.
    kinds: dict[tuple[str, ...], Remedy] = {}
    for remedy in found:
        if len(remedy.changes) == least:
            kinds.setdefault(tuple(remedy.changes), remedy)

    def rank(remedy: Remedy) -> list[int]:
        return [_ORDER.index(name) for name in remedy.changes]

    return sorted(kinds.values(), key=rank)


def _changes(model: Model, setup: Setup, capacity: float) -> Iterator[Remedy]:
    """Yield remedies by stage and checkpointing, each with the largest batch that fits."""
    stages = range(setup.stage, len(STAGES)) if _is_shardable(setup) else (setup.stage,)
    # Partial checkpointing may become full checkpointing.
    kept = (setup, _fully_checkpointed(setup)) if setup != _fully_checkpointed(setup) else (setup,)
    for stage, checkpointed in product(stages, kept):
        changed = replace(checkpointed, stage=stage)
        batch = _largest_pass(model, changed, capacity)
        changes: dict[str, int | bool] = {}
        if stage != setup.stage:
            changes["stage"] = stage
        if checkpointed is not setup:
            changes["checkpointing"] = True
        if batch != setup.batch:
            changes["batch"] = batch
        if batch and changes:
            yield Remedy(_worded(changes, setup.batch), changes)


def _is_shardable(setup: Setup) -> bool:
    return setup.workers > 1 and setup.learners == 1


def _fully_checkpointed(setup: Setup) -> Setup:
    """Return the setup with all activations recomputed."""
    return replace(setup, checkpointing=True, recompute=None)


def _largest_pass(model: Model, setup: Setup, capacity: float) -> int:
    """Return the largest batch of a pass up to that of ``setup``; smaller means several passes."""
    if footprint(model, setup).fits(capacity):
        return setup.batch
    whole = setup.whole_gradients or setup.whole_over_passes
    several = replace(setup, whole_gradients=whole)
    return min(largest_batch(model, several, capacity), setup.batch)


def _fewer_learners(model: Model, setup: Setup, capacity: float) -> int:
    """Return the most learners, fewer than in ``setup``, with which its batch fits, or 0."""
    for learners in range(setup.learners - 1, 0, -1):
        if footprint(model, replace(setup, learners=learners)).fits(capacity):
            return learners
    return 0


def _worded(changes: dict[str, int | bool], batch: int) -> str:
    words = []
    if "stage" in changes:
        words.append(f"shard with {STAGE_NAMES[changes['stage']]}")
    if "checkpointing" in changes:
        words.append("checkpoint activations")
    if "batch" in changes:
        fits = int(changes["batch"])
        samples = "1 sample" if fits == 1 else f"{fits} samples"
        words.append(
            f"take at most {samples} at a time (the same batch in {-(-batch // fits)} accumulated "
            "passes)"
        )
    return " and ".join(words)
