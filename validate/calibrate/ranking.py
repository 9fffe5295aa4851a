"""Whether the algorithm that is predicted to be fastest in a setting is the fastest there, or nearly."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass

from validate.run_record import RunRecord


@dataclass(frozen=True, slots=True)
class Choice:
    """One setting: the names predicted and measured to be fastest, and how much longer the predicted one takes (a fraction)."""

    setting: str
    predicted: str
    measured: str
    regret: float
    tried: int


def choices(records: Iterable[RunRecord]) -> list[Choice]:
    """The choice in each setting in which at least two algorithms were measured and predicted."""
    settings: dict[str, list[RunRecord]] = defaultdict(list)
    for record in records:
        if record.predicted_s is not None and record.setting:
            settings[record.setting].append(record)
    return [_choice(setting, tried) for setting, tried in settings.items() if len(tried) > 1]


def within(chosen: Iterable[Choice], tolerance: float = 0.05) -> float:
    """The part of the settings in which what was predicted to be fastest takes at most ``tolerance`` longer than the fastest."""
    regrets = [choice.regret for choice in chosen]
    return sum(regret <= tolerance for regret in regrets) / len(regrets) if regrets else float("nan")


def _choice(setting: str, tried: list[RunRecord]) -> Choice:
    predicted = min(tried, key=lambda record: record.predicted_s or 0.0)
    fastest = min(tried, key=lambda record: record.median_s)
    return Choice(setting, _algorithm(predicted), _algorithm(fastest), predicted.median_s / fastest.median_s - 1, len(tried))


def _algorithm(record: RunRecord) -> str:
    return str(record.case.get("algorithm", record.name))
