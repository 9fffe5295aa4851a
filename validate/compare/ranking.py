"""Check whether the algorithm predicted to be fastest is the fastest, or nearly.

Algorithms whose predicted times are equal to the last digits send the same messages (a butterfly
and an all-to-all of two ranks are one exchange): they are one choice, and their repetitions are
pooled.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass

from validate.records import RunRecord


@dataclass(frozen=True, slots=True)
class Choice:
    """The algorithm predicted to be fastest and the fastest measured one, in one setting.

    ``regret`` is how much longer the predicted one takes than the fastest, as a fraction.
    """

    setting: str
    predicted: str
    measured: str
    regret: float
    tried: int


def choices(records: Iterable[RunRecord]) -> list[Choice]:
    """Return the choice of each setting with at least two algorithms measured and predicted."""
    settings: dict[str, list[RunRecord]] = defaultdict(list)
    for record in records:
        if record.predicted_s is not None and record.setting:
            settings[record.setting].append(record)
    return [_choice(setting, tried) for setting, tried in settings.items() if len(tried) > 1]


def within(chosen: Iterable[Choice], tolerance: float = 0.05) -> float:
    """Return the share of settings whose ``regret`` is at most ``tolerance``."""
    right = [choice.regret <= tolerance for choice in chosen]
    return sum(right) / len(right) if right else float("nan")


def _choice(setting: str, tried: list[RunRecord]) -> Choice:
    tried = _alike(tried)
    # The cost of a wrong choice comes from measurements alone.
    predicted = min(tried, key=lambda record: record.predicted_s or 0.0)
    fastest = min(tried, key=lambda record: record.median_s)
    return Choice(
        setting,
        predicted=_algorithm(predicted),
        measured=_algorithm(fastest),
        regret=predicted.median_s / fastest.median_s - 1,
        tried=len(tried),
    )


def _alike(tried: list[RunRecord]) -> list[RunRecord]:
    """Merge records with equal predictions into one, with the repetitions and names of all."""
    merged: dict[str, RunRecord] = {}
    for record in tried:
        # The same messages summed in another order differ in the last digits of a float.
        key = f"{record.predicted_s:.9g}"
        if key in merged:
            names = f"{_algorithm(merged[key])} = {_algorithm(record)}"
            pooled = {
                "case": {**record.case, "algorithm": names},
                "measured_s": merged[key].measured_s + record.measured_s,
            }
            record = merged[key].model_copy(update=pooled)  # noqa: PLW2901 - both in one
        merged[key] = record
    return list(merged.values())


def _algorithm(record: RunRecord) -> str:
    return str(record.case.get("algorithm", record.name))
