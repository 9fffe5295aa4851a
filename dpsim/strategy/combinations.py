"""Combinations of strategies that do not work, one rule per line; all others do.

Rules test the properties of each part, never its name, so they hold for new kinds too. A strategy
is a `dpsim.strategy.config.StrategyConfig`, which is checked against them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from dpsim.strategy.aggregation import Aggregation, Coordination
from dpsim.strategy.compression import Codec
from dpsim.strategy.overlap import Overlap
from dpsim.strategy.sync import Sync

PARTS = ("aggregation", "sync", "overlap", "compression")


@dataclass(frozen=True, slots=True)
class Rule:
    """A combination that does not work, and why: it matches if all of its conditions hold.

    ``field``: the field of the aggregation that causes the conflict, if that is not its kind;
    ``sync_field``: the same for the synchronisation. ``loss``: the rule is about averaging the
    loss.
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
    def conditions(self) -> dict[str, Callable[[Any], bool]]:
        """The conditions by part; a part without one may be of any kind."""
        found = {part: getattr(self, part) for part in PARTS}
        return {part: condition for part, condition in found.items() if condition is not None}

    def forbids(self, strategy: Any) -> bool:
        """Return whether the rule matches ``strategy``."""
        if self.loss and not strategy.average_loss:
            return False
        return all(
            condition(getattr(strategy, part)) for part, condition in self.conditions.items()
        )

    def named_parts(self, strategy: Any) -> str:
        """Return the conflicting parts of ``strategy``, in the words of a scenario."""
        words = [f"{part} {getattr(strategy, part).kind}" for part in self.conditions]
        if self.field:
            words[0] = f"aggregation.{self.field} {getattr(strategy.aggregation, self.field)}"
        if self.sync_field:
            words[1] = f"sync.{self.sync_field}"
        return " with ".join([*words, *["average_loss"] * self.loss])


def _keeps_own_models(aggregation: Aggregation) -> bool:
    return not aggregation.one_version


def _shards(aggregation: Aggregation) -> bool:
    return aggregation.shards


def _has_no_barrier(sync: Sync) -> bool:
    return not sync.barrier


def _has_levels(sync: Sync) -> bool:
    return sync.outer_step is not None


def _puts_front_first(overlap: Overlap) -> bool:
    return overlap.front_first


def _does_not_add_up(codec: Codec) -> bool:
    return not codec.sums_in_flight


# In the order in which they are tested: the first rule that matches gives the reason.
RULES = (
    Rule(
        "gossip averages with given neighbours: it has no clock that all workers see, and nobody "
        "to stand in for one that is late",
        aggregation=_keeps_own_models,
        sync=lambda sync: sync.waits and not sync.barrier,
    ),
    Rule(
        "gossip has no central average model to correct towards",
        aggregation=_keeps_own_models,
        sync=lambda sync: sync.central_model,
    ),
    Rule(
        "gossip exchanges whole models, which have no front layers to go first",
        aggregation=_keeps_own_models,
        overlap=_puts_front_first,
    ),
    Rule(
        "the host adds up the gradients of all workers: none can continue alone",
        aggregation=lambda aggregation: aggregation.through_host,
        sync=_has_no_barrier,
    ),
    Rule(
        "the host adds up vectors and knows no codec",
        aggregation=lambda aggregation: aggregation.through_host,
        compression=_does_not_add_up,
    ),
    Rule(
        "a single process has one model, which its first GPU hands out in each step",
        aggregation=lambda aggregation: aggregation.single_process,
        sync=lambda sync: not sync.one_version,
        field="way",
    ),
    Rule(
        "workers of a group exchange in collectives, and groups in all-reduces",
        aggregation=lambda aggregation: not aggregation.in_groups,
        sync=_has_levels,
        sync_field="outer",
    ),
    Rule(
        "a group divides its model among all of its workers",
        aggregation=lambda aggregation: aggregation.shards_in_part,
        sync=_has_levels,
        field="shard_group",
        sync_field="outer",
    ),
    Rule(
        "workers of a group that divide a model exchange gradients in each step: every 1, in "
        "steps, and no switch_after",
        aggregation=_shards,
        sync=lambda sync: _has_levels(sync) and not sync.in_step,
        sync_field="outer",
    ),
    Rule(
        "a worker holds only a part of the model and cannot train alone; a group can: local-sgd "
        "with group: node and every: 1",
        aggregation=_shards,
        sync=lambda sync: not _has_levels(sync) and not sync.in_step,
    ),
    Rule(
        "a reduce-scatter sums payloads in flight, which this codec cannot",
        aggregation=_shards,
        compression=_does_not_add_up,
    ),
    Rule(
        "the second factor needs the whole first factor, and each worker has only a part of it",
        aggregation=_shards,
        compression=lambda codec: codec.chained,
    ),
    Rule(
        "an asynchronous worker pulls all parameters at once, when it begins an iteration",
        aggregation=lambda aggregation: aggregation.coordination is Coordination.SERVERS,
        sync=_has_no_barrier,
        overlap=_puts_front_first,
    ),
    Rule(
        "independent workers end no step together, so there is no common loss to average",
        aggregation=lambda aggregation: aggregation.coordination is not Coordination.COLLECTIVE,
        sync=_has_no_barrier,
        loss=True,
    ),
)


def rule_against(strategy: Any) -> Rule | None:
    """Return the first rule that the parts of ``strategy`` break, None if compatible."""
    return next((rule for rule in RULES if rule.forbids(strategy)), None)


def refusal(strategy: Any) -> str | None:
    """Return why the parts of ``strategy`` are incompatible, in words; None if they are not."""
    rule = rule_against(strategy)
    return None if rule is None else f"{rule.named_parts(strategy)} is not possible: {rule.why}"
