"""Which strategies go together: data, one line a rule; what no rule speaks of works."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dpsim.scenario.schema import StrategyConfig


@dataclass(frozen=True, slots=True)
class Rule:
    """Strategies that do not go together, and why; an empty tuple stands for any kind.

    ``sums`` False: the rule is about codecs whose payloads do not add up.
    """

    why: str
    aggregation: tuple[str, ...] = ()
    sync: tuple[str, ...] = ()
    overlap: tuple[str, ...] = ()
    sums: bool | None = None

    def forbids(self, strategy: StrategyConfig) -> bool:
        """Whether ``strategy`` is what the rule speaks of."""
        pairs = ((self.aggregation, strategy.aggregation), (self.sync, strategy.sync), (self.overlap, strategy.overlap))
        named = all(not kinds or part.kind in kinds for kinds, part in pairs)
        return named and self.sums in (None, strategy.compression.sums_in_flight)

    def said(self, strategy: StrategyConfig) -> str:
        """What of ``strategy`` does not go together, in the words of a scenario."""
        parts = {"aggregation": self.aggregation, "sync": self.sync, "overlap": self.overlap, "compression": self.sums is not None}
        return " with ".join(f"{part} {getattr(strategy, part).kind}" for part, speaks in parts.items() if speaks)


RULES = (
    Rule("gossip has no clock that all workers see, so none can be held to it", ("gossip",), ("ssp",)),
    Rule("gossip averages with given neighbours: nobody can stand in for one that is late", ("gossip",), ("backup",)),
    Rule("gossip has no central average model to correct towards", ("gossip",), ("sma",)),
    Rule("gossip exchanges whole models, which have no front layers to go first", ("gossip",), (), ("priority",)),
    Rule("the host adds up what all workers copied to it: none can go on alone", ("host",), ("backup", "ssp", "asp")),
    Rule("the host adds up vectors and knows no codec", ("host",), sums=False),
    Rule("no worker holds a whole model with which to go on alone", ("sharded",), ("backup", "ssp", "asp", "local-sgd", "sma")),
    Rule("a reduce-scatter adds up in flight", ("sharded",), sums=False),
    Rule(
        "an asynchronous worker pulls all parameters at once, when it begins an iteration",
        ("parameter-server",),
        ("backup", "ssp", "asp"),
        ("priority",),
    ),
)


def refusal(strategy: StrategyConfig) -> str | None:
    """Why the parts of ``strategy`` do not go together, None where they do."""
    return next((f"{rule.said(strategy)} means nothing: {rule.why}" for rule in RULES if rule.forbids(strategy)), None)
