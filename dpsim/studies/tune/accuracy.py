"""What a strategy costs in accuracy, where that is known.

It is known, and nothing, of strategies that make the very updates of plain synchronous training:
gradients of all workers, on the newest parameters, uncompressed. Of the others no figure is held
here: what published runs lose is that of their own task, model and tuning. So it is unknown, never
assumed to be small; ``dpsim converge`` trains a small model in the same way and shows its loss.
"""

from __future__ import annotations

from dpsim.scenario import Scenario


def accuracy_penalty(scenario: Scenario) -> float | None:
    """Share of accuracy that is lost against plain synchronous training with the same batch.

    0, or None where it is not known.
    """
    return None if inexact(scenario) else 0.0


def inexact(scenario: Scenario) -> list[str]:
    """What of the strategy makes other updates than plain synchronous training.

    In words; empty where nothing does.
    """
    return scenario.strategy.inexact
