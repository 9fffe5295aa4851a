"""The state of a sweep: its points, and how many were skipped, computed or failed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from dpsim.base.lazy import Shown
from dpsim.base.provenance import provenance
from dpsim.studies.sweep.answer import Answer, query
from dpsim.studies.sweep.columns import varied_names
from dpsim.studies.sweep.expand import Plan
from dpsim.studies.sweep.point import Content
from dpsim.studies.sweep.store import Row

_SHOWN_FAILURES = 20


@dataclass(frozen=True, slots=True)
class Sweep(Shown):
    """The points of a sweep, and its ``rows`` so far by key.

    ``before`` are the rows from before it began or was resumed; ``damage`` says which were damaged.
    """

    folder: Path
    plan: Plan
    rows: Mapping[str, Row] = field(repr=False)
    before: Mapping[str, Row] = field(default_factory=dict, repr=False)
    damage: str | None = None

    @property
    def points(self) -> int:
        """Number of points."""
        return len(self.plan.points)

    @property
    def missing(self) -> dict[str, Content]:
        """The scenarios to compute by key: without a row, or with an error that may not recur."""
        return {
            point.key: point.content
            for point in self.plan.points
            if point.key and not _is_final(self.rows, point.key)
        }

    @property
    def skipped(self) -> int:
        """The number of points whose rows existed before."""
        return sum(
            point.key is not None and _is_final(self.before, point.key)
            for point in self.plan.points
        )

    @property
    def failed(self) -> int:
        """The number of points whose row is an error."""
        return len(self._failures())

    @property
    def computed(self) -> int:
        """The number of scenarios simulated now; points with the same scenario count once."""
        keys = {point.key for point in self.plan.points if point.key}
        return sum(key in self.rows and not _is_final(self.before, key) for key in keys)

    def __repr__(self) -> str:
        return f"<Sweep {self.folder}: {self.points:,} points, {self.failed:,} failed>"

    def to_rows(self) -> list[dict[str, Any]]:
        """Return a row per point, like ``select * from results``."""
        answer = self.query()
        return [dict(zip(answer.columns, row, strict=True)) for row in answer.rows]

    def query(self, sql: str = "select * from results") -> Answer:
        """Answer an SQL query about ``results``, which has one row per point. Raises DpsimError."""
        return query(self.folder, sql)

    def to_json(self) -> dict[str, Any]:
        """Return the JSON object of ``dpsim sweep --json``."""
        return {
            "schema_version": 1,
            "kind": "sweep",
            "folder": str(self.folder),
            "points": self.points,
            "skipped": self.skipped,
            "computed": self.computed,
            "failed": self.failed,
            "failures": self._failures()[:_SHOWN_FAILURES],
            "provenance": provenance(),
        }

    @property
    def failures_by_rule(self) -> dict[str, list[dict[str, Any]]]:
        """The failed points by the rule that they break, such as too little memory."""
        groups: dict[str, list[dict[str, Any]]] = {}
        for each in self._failures():
            rule, _, _ = each["error"].partition(", but ")
            groups.setdefault(rule, []).append(each)
        return groups

    def _failures(self) -> list[dict[str, Any]]:
        """Return the number, file and error of each failed point."""
        # Invalid points have their own errors, and no rows.
        errors = [
            point.error or self.rows.get(point.key or "", {}).get("error")
            for point in self.plan.points
        ]
        points = enumerate(zip(self.plan.points, errors, strict=True))
        return [
            {"point": number, "file": point.file, "error": "; ".join(error.splitlines())}
            for number, (point, error) in points
            if error
        ]


def _is_final(rows: Mapping[str, Row], key: str) -> bool:
    return key in rows and not rows[key]["retry"]


def manifest(plan: Plan) -> dict[str, Any]:
    """Return the manifest of a sweep."""
    return {
        "schema_version": 1,
        "kind": "sweep-manifest",
        "files": list(plan.files),
        "points": len(plan.points),
        "varied": varied_names(plan.paths),
        "provenance": provenance(),
    }
