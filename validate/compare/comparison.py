"""Comparison of records of runs with their predictions: errors, choices, and worst cases."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any

from dpsim.report.figures.measured_figure import Pair
from validate.compare.causes import Cause, worst
from validate.compare.ranking import Choice, choices, within
from validate.compare.scores import Score, counted, groups, score
from validate.records import RunRecord

NEAR = 0.05  # a choice is right if it takes at most this much longer than the fastest


@dataclass(frozen=True)
class Comparison:
    """Errors, choices and worst cases of records of runs."""

    records: Sequence[RunRecord]

    @cached_property
    def counted(self) -> list[RunRecord]:
        """The records whose errors count."""
        return counted(self.records)

    @cached_property
    def pairs(self) -> dict[str, list[Pair]]:
        """The counted records as points of a figure, by kind."""
        found: dict[str, list[Pair]] = {}
        for record in self.counted:
            # Counted records have a prediction, so the 0 is never used.
            pair = Pair(record.name, record.median_s, record.predicted_s or 0.0)
            found.setdefault(f"{record.kind}s", []).append(pair)
        return found

    @cached_property
    def overall(self) -> Score | None:
        """The errors of all counted records."""
        return score(self.counted)

    @cached_property
    def groups(self) -> dict[str, Score]:
        """The errors of each group."""
        scores = {name: score(members) for name, members in groups(self.counted).items()}
        return {name: one for name, one in scores.items() if one is not None}

    @cached_property
    def choices(self) -> list[Choice]:
        """The algorithm predicted to be fastest and the fastest one, in each setting."""
        # Includes cases that were fitted on: a ranking needs all algorithms of its setting.
        return choices(record for record in self.records if not record.partial)

    @cached_property
    def worst(self) -> list[Cause]:
        """The worst cases of each kind."""
        # Separately, or one kind could fill the list.
        kinds = dict.fromkeys(record.kind for record in self.counted)
        return [
            each
            for kind in kinds
            for each in worst([record for record in self.counted if record.kind == kind])
        ]

    def within(self, tolerance: float) -> bool:
        """Return whether the mean error of every kind is at most ``tolerance``."""
        # Separately, or many small errors of one kind would hide large ones of the other.
        return all(
            self.groups[name].mean_ape <= tolerance
            for name in ("steps", "collectives")
            if name in self.groups
        )

    def to_json(self) -> dict[str, Any]:
        """Return the object of ``dpsim validate compare --json``."""
        return {
            "schema_version": 1,
            "kind": "validate-compare",
            "overall": self.overall and self.overall.to_json(),
            "groups": {name: one.to_json() for name, one in self.groups.items()},
            "choices": [
                {**asdict(choice), "right": choice.regret <= NEAR} for choice in self.choices
            ],
            "choices_right": within(self.choices, NEAR) if self.choices else None,
            "worst": [cause.to_json() for cause in self.worst],
            "rows": [_row(record) for record in self.counted],
            "fitted_on": sum(record.fitted for record in self.records),
            "partial": [record.name for record in self.records if record.partial],
            "not_predicted": [record.name for record in self.records if record.predicted_s is None],
        }


def _row(record: RunRecord) -> dict[str, Any]:
    return {
        "kind": record.kind,
        "name": record.name,
        "setting": record.setting,
        "predicted_s": record.predicted_s,
        "measured_s": record.median_s,
        "error": record.error,
    }
