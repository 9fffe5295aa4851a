"""Combinations of strategies that do not work, one rule per line; all others do.

Rules test the properties of each part, never its name, so they hold for new kinds too.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

from dpsim.strategy.aggregation import Aggregation, Meeting
from dpsim.strategy.compression import Codec
from dpsim.strategy.overlap import Overlap
from dpsim.strategy.sync import Sync

PARTS = ("aggregation", "sync", "overlap", "compression")


class Parts(Protocol):
    """A strategy as the rules see it."""

    @property
    def aggregation(self) -> Aggregation:
        """How gradients are aggregated."""

    @property
    def sync(self) -> Sync:
        """How workers synchronise."""

    @property
    def overlap(self) -> Overlap:
        """How communication overlaps with the passes."""

    @property
    def compression(self) -> Codec:
        """How payloads are compressed."""

    @property
    def average_loss(self) -> bool:
        """Whether the loss is averaged, too."""


S = TypeVar("S", bound=Parts)


@dataclass(frozen=True, slots=True)
class Rule:
    """A combination that does not work, and why: it matches where all of its conditions hold.

    ``field``: the field of the aggregation that causes the conflict, where that is not its kind;
    ``sync_field``: the same of the synchronisation. ``loss``: the rule is about averaging the loss.
    """

    why: str
    aggregation: Callable[[Aggregation], bool] | None = None
    sync: Callable[[Sync], bool] | None = None
    overlap: Callable[[Overlap], bool] | None = None
    compression: Callable[[Codec], bool] | None = None
    field: str = ""
    sync_field: str = ""
    loss: bool = False

    @property
    def asked(self) -> dict[str, Callable[[Any], bool]]:
        """The conditions, by the part that they test."""
        # A part without a condition may be of any kind.
        questions = {part: getattr(self, part) for part in PARTS}
        return {part: question for part, question in questions.items() if question is not None}

    def forbids(self, strategy: Parts) -> bool:
        """Return whether the rule matches ``strategy``."""
        if self.loss and not strategy.average_loss:
            return False
        return all(question(getattr(strategy, part)) for part, question in self.asked.items())

    def said(self, strategy: Parts) -> str:
        """Return the conflicting parts of ``strategy``, in the words of a scenario."""
        words = [f"{part} {getattr(strategy, part).kind}" for part in self.asked]
        if self.field:
            words[0] = f"aggregation.{self.field} {getattr(strategy.aggregation, self.field)}"
        if self.sync_field:
            words[1] = f"sync.{self.sync_field}"
        return " with ".join([*words, *["average_loss"] * self.loss])


def _keeps_own_models(aggregation: Aggregation) -> bool:
    return not aggregation.one_version


def _goes_through_host(aggregation: Aggregation) -> bool:
    return aggregation.through_host


def _is_single_process(aggregation: Aggregation) -> bool:
    return aggregation.single_process


def _shards(aggregation: Aggregation) -> bool:
    return aggregation.shards


def _shards_in_part(aggregation: Aggregation) -> bool:
    return aggregation.shards_in_part


def _has_servers(aggregation: Aggregation) -> bool:
    return aggregation.meeting is Meeting.AT_SERVERS


def _meets_apart(aggregation: Aggregation) -> bool:
    return aggregation.meeting is not Meeting.TOGETHER


def _has_no_barrier(sync: Sync) -> bool:
    return not sync.barrier


def _waits_for_some(sync: Sync) -> bool:
    return sync.waits and not sync.barrier


def _meets_as_one(aggregation: Aggregation) -> bool:
    return not aggregation.in_groups


def _has_levels(sync: Sync) -> bool:
    return sync.outer_step is not None


def _has_central_model(sync: Sync) -> bool:
    return sync.central_model


def _has_own_models(sync: Sync) -> bool:
    return not sync.one_version


def _is_not_in_step(sync: Sync) -> bool:
    return not sync.in_step and not _has_levels(sync)


def _has_groups_not_in_step(sync: Sync) -> bool:
    return not sync.in_step and _has_levels(sync)


def _puts_front_first(overlap: Overlap) -> bool:
    return overlap.front_first


def _does_not_add_up(codec: Codec) -> bool:
    return not codec.sums_in_flight


def _is_chained(codec: Codec) -> bool:
    return codec.chained


# In the order in which they are tested: the first rule that matches gives the reason.
RULES = (
    Rule(
        "gossip averages with given neighbours: it has no clock that all workers see, and nobody "
        "to stand in for one that is late",
        _keeps_own_models,
        _waits_for_some,
    ),
    Rule(
        "gossip has no central average model to correct towards",
        _keeps_own_models,
        _has_central_model,
    ),
    Rule(
        "gossip exchanges whole models, which have no front layers to go first",
        _keeps_own_models,
        overlap=_puts_front_first,
    ),
    Rule(
        "the host adds up what all workers copied to it: none can go on alone",
        _goes_through_host,
        _has_no_barrier,
    ),
    Rule(
        "the host adds up vectors and knows no codec",
        _goes_through_host,
        compression=_does_not_add_up,
    ),
    Rule(
        "a single process has one model, which its first GPU hands out in each step",
        _is_single_process,
        _has_own_models,
        field="way",
    ),
    Rule(
        "workers in groups meet in collectives, and groups in all-reduces",
        _meets_as_one,
        _has_levels,
        sync_field="outer",
    ),
    Rule(
        "a group divides its model among all of its workers",
        _shards_in_part,
        _has_levels,
        field="shard_group",
        sync_field="outer",
    ),
    Rule(
        "workers of a group that divide a model exchange gradients in each step: every 1, in "
        "steps, and no switch_after",
        _shards,
        _has_groups_not_in_step,
        sync_field="outer",
    ),
    Rule(
        "no worker holds a whole model with which to go on alone; a group does: local-sgd with "
        "group: node and every: 1",
        _shards,
        _is_not_in_step,
    ),
    Rule("a reduce-scatter adds up in flight", _shards, compression=_does_not_add_up),
    Rule(
        "the second factor needs the whole of the first, of which each worker has a part",
        _shards,
        compression=_is_chained,
    ),
    Rule(
        "an asynchronous worker pulls all parameters at once, when it begins an iteration",
        _has_servers,
        _has_no_barrier,
        _puts_front_first,
    ),
    Rule(
        "workers that act alone end no step together, of which they could average the loss",
        _meets_apart,
        _has_no_barrier,
        loss=True,
    ),
)


def rule_against(strategy: Parts) -> Rule | None:
    """Return the first rule that the parts of ``strategy`` break, None if compatible."""
    return next((rule for rule in RULES if rule.forbids(strategy)), None)


def refusal(strategy: Parts) -> str | None:
    """Return why the parts of ``strategy`` are incompatible, in words; None where they are not."""
    rule = rule_against(strategy)
    return None if rule is None else f"{rule.said(strategy)} means nothing: {rule.why}"


def checked(strategy: S) -> S:
    """Return the strategy itself. Raises ValueError where its parts are incompatible."""
    why = refusal(strategy)
    if why is not None:
        raise ValueError(why)
    return strategy
