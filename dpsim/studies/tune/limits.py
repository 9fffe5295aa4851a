"""The limits on configurations.

Most are checked before simulating; budget and days cannot be.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from dpsim.base.errors import DpsimError
from dpsim.base.units import DATA, human
from dpsim.engine import memory_use
from dpsim.scenario import Scenario

# The option of each limit, and the least it may be. Without a least it must be above 0, which lost
# accuracy may be, but not memory or money.
_OPTIONS: dict[str, tuple[str, int | None]] = {
    "memory": ("max-memory", None),
    "batch": ("max-batch", 1),
    "nodes": ("max-nodes", 1),
    "budget": ("budget", None),
    "days": ("within", None),
    "accuracy_penalty": ("max-accuracy-penalty", 0),
}


@dataclass(frozen=True, slots=True)
class Limits:
    """Upper limits on a configuration; None means no limit.

    ``memory``: bytes on each GPU. ``batch``: samples of all workers in a step. ``budget`` and
    ``days``: cost (in GPU hours if there is no price) and time of training to the target; if the
    objective has no target, of the total asked for, or else of a million samples.
    ``accuracy_penalty``: share of accuracy lost; strategies with an unknown loss break any such
    limit. Raises DpsimError for limits that nothing can meet.
    """

    memory: float | None = None
    batch: int | None = None
    nodes: int | None = None
    budget: float | None = None
    accuracy_penalty: float | None = None
    days: float | None = None

    def __post_init__(self) -> None:
        for name, (option, least) in _OPTIONS.items():
            limit: float | None = getattr(self, name)
            if limit is not None and (limit <= 0 if least is None else limit < least):
                rule = "above 0" if least is None else f"at least {least}"
                given = human(limit, DATA, 3) if name == "memory" else f"{limit:g}"
                raise DpsimError(f"--{option}: must be {rule}, but got {given}")

    def broken(self, scenario: Scenario) -> str | None:
        """Return the first limit that ``scenario`` breaks, None if it meets all.

        The memory of its GPUs is one of them.
        """
        return next(self._broken(scenario), None)

    def _broken(self, scenario: Scenario) -> Iterator[str]:
        nodes = sum(part.nodes for part in scenario.cluster.parts)
        if self.nodes is not None and nodes > self.nodes:
            yield f"more than {self.nodes:,} nodes (--max-nodes)"
        if self.batch is not None and scenario.global_batch > self.batch:
            yield f"a global batch above {self.batch:,} samples (--max-batch)"
        # Strategies with the same updates lose nothing, which no limit forbids.
        if self.accuracy_penalty is not None and scenario.strategy.inexact:
            why = scenario.strategy.inexact[0]
            yield f"accuracy penalty not known (--max-accuracy-penalty): {why}"
        memory = memory_use(scenario)
        if not memory.fits and not scenario.run.allow_out_of_memory:
            yield f"does not fit in the {human(memory.capacity, DATA, 3)} of {memory.gpu}"
        if self.memory is not None and memory.held.total > self.memory:
            yield f"more than {human(self.memory, DATA, 3)} on a GPU (--max-memory)"

    def over_budget(self, cost: float, unit: str, time_s: float) -> str | None:
        """Return a message if a cost is over the budget or a time too long, None otherwise."""
        if self.budget is not None and cost > self.budget:
            return f"costs more than {self.budget:g} {unit} (--budget)"
        if self.days is not None and time_s > self.days * 86400:
            return f"takes more than {self.days:g} days (--within)"
        return None
