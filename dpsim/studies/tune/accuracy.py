"""The loss of accuracy by a strategy, if it is known.

It is known to be zero for strategies with the same updates as synchronous training: gradients of
all workers, on the newest parameters, uncompressed. For the others there is no figure, since the
loss in published runs depends on their task, model and tuning. It is therefore unknown, and never
assumed to be small; ``dpsim converge`` trains a small model in the same way and shows its loss.
"""

from __future__ import annotations

from dpsim.scenario import Scenario


def accuracy_penalty(scenario: Scenario) -> float | None:
    """Return the share of accuracy lost against synchronous training with the same batch.

    0, or None if it is unknown.
    """
    return None if inexact(scenario) else 0.0


def inexact(scenario: Scenario) -> list[str]:
    """Return which parts of the strategy change the updates of synchronous training.

    In words; empty if none does.
    """
    return scenario.strategy.inexact
