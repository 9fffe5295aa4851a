"""The ranking of overlap policies where several were measured in one setting."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from validate.published.overlap.scenarios import policy_of, setting_of
from validate.published.tables import StepRow

_CLOSE = 0.02  # measured steps closer than this are a tie


@dataclass(frozen=True, slots=True)
class Order:
    """One setting in which several policies were measured.

    The measured and predicted step of each policy (s).
    """

    setting: tuple[str, ...]
    measured: dict[str, float]
    predicted: dict[str, float]

    @property
    def right(self) -> bool:
        """Whether the prediction ranks all policies as measured."""
        return sorted(self.measured, key=self.measured.__getitem__) == sorted(
            self.predicted, key=self.predicted.__getitem__
        )

    def pairs(self, apart: float = 0.0) -> list[bool]:
        """Return, for each pair of policies, whether the prediction ranks it as measured.

        Only pairs whose measured steps differ by more than ``apart``.
        """
        # The slower policy comes first, so that each pair counts once and ties do not count.
        m, p = self.measured, self.predicted
        twos = [(one, other) for one in m for other in m if m[one] > m[other] * (1 + apart)]
        return [p[one] > p[other] for one, other in twos]

    def to_json(self) -> dict[str, Any]:
        """Return the order as JSON, with times in ms."""
        return {
            "setting": list(self.setting),
            "measured_ms": {name: 1e3 * seconds for name, seconds in self.measured.items()},
            "predicted_ms": {name: 1e3 * seconds for name, seconds in self.predicted.items()},
            "right": self.right,
        }


def orders(rows: Sequence[StepRow]) -> list[Order]:
    """Return the settings with several policies."""
    settings: dict[tuple[str, ...], Order] = {}
    for row in rows:
        policy, setting = policy_of(row.step), setting_of(row.step)
        if policy is not None:
            order = settings.setdefault(setting, Order(setting, {}, {}))
            order.measured[policy], order.predicted[policy] = row.measured, row.predicted
    return [order for order in settings.values() if len(order.measured) > 1]


def ranked(rows: Sequence[StepRow]) -> tuple[dict[str, Any], list[str]]:
    """Return the JSON's ``orders``, and how often policies rank as measured, in words."""
    found = orders(rows)
    if not found:
        return {"orders": []}, []
    pairs = [right for order in found for right in order.pairs()]
    clear = [right for order in found for right in order.pairs(_CLOSE)]
    said = (
        f"policies rank as measured in {sum(order.right for order in found)} of {len(found)} "
        f"settings, {sum(pairs)} of {len(pairs)} pairs, {sum(clear)} of {len(clear)} pairs more "
        f"than {_CLOSE:.0%} apart"
    )
    return {"orders": [order.to_json() for order in found]}, [said]
