"""Which strategies go together: data, one line a rule; what no rule speaks of works."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

from dpsim.strategy.compression import Codec


class Parts(Protocol):
    """A strategy as the rules see it: each part has a ``kind``."""

    @property
    def aggregation(self) -> Any:
        """How gradients meet."""

    @property
    def sync(self) -> Any:
        """When they meet."""

    @property
    def overlap(self) -> Any:
        """What runs beside the passes."""

    @property
    def compression(self) -> Codec:
        """What is done to payloads."""

    @property
    def average_loss(self) -> bool:
        """Whether the loss is averaged, too."""


@dataclass(frozen=True, slots=True)
class Rule:
    """Strategies that do not go together, and why; an empty tuple stands for any kind.

    ``sums`` False: the rule is about codecs whose payloads do not add up; ``loss``: about averaging
    the loss; ``way``: about aggregations that go that way.
    """

    why: str
    aggregation: tuple[str, ...] = ()
    sync: tuple[str, ...] = ()
    overlap: tuple[str, ...] = ()
    compression: tuple[str, ...] = ()
    sums: bool | None = None
    loss: bool = False
    way: str = ""

    @property
    def kinds(self) -> dict[str, tuple[str, ...]]:
        """The kinds of each part of a strategy that it names."""
        return {
            part: getattr(self, part) for part in ("aggregation", "sync", "overlap", "compression")
        }

    def forbids(self, strategy: Parts) -> bool:
        """Whether ``strategy`` is what the rule speaks of."""
        named = all(
            not kinds or getattr(strategy, part).kind in kinds for part, kinds in self.kinds.items()
        )
        goes = self.way in ("", getattr(strategy.aggregation, "way", ""))
        return (
            named
            and goes
            and self.sums in (None, strategy.compression.sums_in_flight)
            and self.loss <= strategy.average_loss
        )

    def said(self, strategy: Parts) -> str:
        """What of ``strategy`` does not go together, in the words of a scenario."""
        parts = {**self.kinds, "compression": self.compression or self.sums is not None}
        words = {
            part: f"{part} {getattr(strategy, part).kind}"
            for part, speaks in parts.items()
            if speaks
        }
        named = (
            {**words, "aggregation": f"aggregation.way {self.way}"} if self.way else words
        ).values()
        return " with ".join([*named, *["average_loss"] * self.loss])


_NO_STEP = "workers that act alone end no step together, of which they could average the loss"

RULES = (
    Rule(
        "gossip has no clock that all workers see, so none can be held to it", ("gossip",), ("ssp",)
    ),
    Rule(
        "gossip averages with given neighbours: nobody can stand in for one that is late",
        ("gossip",),
        ("backup",),
    ),
    Rule("gossip has no central average model to correct towards", ("gossip",), ("sma",)),
    Rule(
        "gossip exchanges whole models, which have no front layers to go first",
        ("gossip",),
        (),
        ("priority",),
    ),
    Rule(
        "the host adds up what all workers copied to it: none can go on alone",
        ("host",),
        ("backup", "ssp", "asp"),
    ),
    Rule("the host adds up vectors and knows no codec", ("host",), sums=False),
    Rule(
        "a single process has one model, which its first GPU hands out in each step",
        ("host",),
        ("local-sgd", "sma"),
        way="single-process",
    ),
    Rule(
        "no worker holds a whole model with which to go on alone",
        ("sharded",),
        ("backup", "ssp", "asp", "local-sgd", "sma"),
    ),
    Rule("a reduce-scatter adds up in flight", ("sharded",), sums=False),
    Rule(
        "the second factor needs the whole of the first, of which each worker has a part",
        ("sharded",),
        compression=("powersgd",),
    ),
    Rule(
        "an asynchronous worker pulls all parameters at once, when it begins an iteration",
        ("parameter-server",),
        ("backup", "ssp", "asp"),
        ("priority",),
    ),
    Rule(_NO_STEP, ("parameter-server",), ("backup", "ssp", "asp"), loss=True),
    Rule(_NO_STEP, ("gossip",), ("asp",), loss=True),
)


def refusal(strategy: Parts) -> str | None:
    """Why the parts of ``strategy`` do not go together, None where they do."""
    return next(
        (
            f"{rule.said(strategy)} means nothing: {rule.why}"
            for rule in RULES
            if rule.forbids(strategy)
        ),
        None,
    )
