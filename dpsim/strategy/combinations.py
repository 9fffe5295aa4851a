"""Which strategies go together: data, one line a rule; what no rule speaks of works.

A rule asks each part what it is like, never for its name, so that it holds for new kinds too.
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
        """How gradients meet."""

    @property
    def sync(self) -> Sync:
        """When they meet."""

    @property
    def overlap(self) -> Overlap:
        """What runs beside the passes."""

    @property
    def compression(self) -> Codec:
        """What is done to payloads."""

    @property
    def average_loss(self) -> bool:
        """Whether the loss is averaged, too."""


S = TypeVar("S", bound=Parts)


@dataclass(frozen=True, slots=True)
class Rule:
    """Strategies that do not go together, and why: those of whose parts all that it asks is true.

    ``field``: the one of the aggregation's fields that makes it so, where that is not its kind;
    ``sync_field``: the same of the synchronisation.
    ``loss``: it is about averaging the loss.
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
        """What it asks of which parts."""
        # A part that a rule asks nothing of may be whatever it is.
        questions = {part: getattr(self, part) for part in PARTS}
        return {part: question for part, question in questions.items() if question is not None}

    def forbids(self, strategy: Parts) -> bool:
        """Whether ``strategy`` is what the rule speaks of."""
        if self.loss and not strategy.average_loss:
            return False
        return all(question(getattr(strategy, part)) for part, question in self.asked.items())

    def said(self, strategy: Parts) -> str:
        """What of ``strategy`` does not go together, in the words of a scenario."""
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


# In the order in which they are asked: a strategy that several forbid is refused for the first.
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
    """The rule by which the parts of ``strategy`` do not go together, None where they do."""
    return next((rule for rule in RULES if rule.forbids(strategy)), None)


def refusal(strategy: Parts) -> str | None:
    """Why the parts of ``strategy`` do not go together, in words; None where they do."""
    rule = rule_against(strategy)
    return None if rule is None else f"{rule.said(strategy)} means nothing: {rule.why}"


def checked(strategy: S) -> S:
    """The strategy itself. Raises ValueError where its parts do not go together."""
    why = refusal(strategy)
    if why is not None:
        raise ValueError(why)
    return strategy
