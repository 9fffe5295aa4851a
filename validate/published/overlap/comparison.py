"""``dpsim validate reference overlap``.

Overlap policies, parameter servers and gossip of scaling.csv, as the simulator has them.

Policies are predicted twice. With alpha and beta as published for the cluster: those rows stand
apart. And corrected by what other models on the same cluster showed (see `overlap_model`): those
count. A cluster of fewer than three known models stays as published.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import numpy as np

from validate.published.overlap.model import Costs, fit, step_seconds
from validate.published.overlap.rows import PolicyRow, policy_rows
from validate.published.overlap.rows_without_all_reduce import rows_without_all_reduce
from validate.published.scaling import IDENTITY, REQUIRED, TABLE, stated_step
from validate.published.tables import (
    Columns,
    Progress,
    StepReference,
    StepRow,
    by_quality,
    identities,
    packaged_table,
)

_FEWEST_MODELS = 2  # others on the cluster, to learn from
_CLOSE = 0.02  # measured steps closer than this are a tie


@dataclass(frozen=True, slots=True)
class Order:
    """One setting that several policies were measured in.

    Each policy's step as measured and as predicted (s).
    """

    setting: tuple[str, ...]
    measured: Mapping[str, float]
    predicted: Mapping[str, float]

    @property
    def right(self) -> bool:
        """Whether the prediction ranks all as measured."""
        return sorted(self.measured, key=self.measured.__getitem__) == sorted(
            self.predicted, key=self.predicted.__getitem__
        )

    def pairs(self, apart: float = 0.0) -> list[bool]:
        """Whether the prediction ranks two policies as the measurement does.

        One answer for each two whose measured steps differ by more than ``apart``.
        """
        # The slower of two comes first, so that each two count once and equal ones not at all.
        m, p = self.measured, self.predicted
        twos = [(one, other) for one in m for other in m if m[one] > m[other] * (1 + apart)]
        return [p[one] > p[other] for one, other in twos]

    def to_json(self) -> dict[str, Any]:
        """Times in ms."""
        measured = {name: 1e3 * seconds for name, seconds in self.measured.items()}
        predicted = {name: 1e3 * seconds for name, seconds in self.predicted.items()}
        return {
            "setting": list(self.setting),
            "measured_ms": measured,
            "predicted_ms": predicted,
            "right": self.right,
        }


@dataclass(slots=True)
class OverlapReference(StepReference):
    """The rows, and how policies rank in each setting."""

    orders: list[Order] = field(default_factory=list)

    def to_json(self) -> dict[str, Any]:
        """That of other tables of step times, and ``orders``."""
        return {**StepReference.to_json(self), "orders": [order.to_json() for order in self.orders]}


def compare(tested: Columns, known: Columns | None, progress: Progress) -> OverlapReference:
    """Predict the rows of overlap policies, parameter servers and gossip.

    Corrections come from ``known`` (None: the public table).
    """
    result = OverlapReference(
        "overlap",
        left_out="what the row's own model showed is left out of the correction that predicts it",
    )
    source = _public_rows() if known is None else policy_rows(known)[0]
    kept = identities(tested, IDENTITY)
    rows, refused = policy_rows(tested)
    seconds = _policies(result, rows, source, tested, kept)
    progress("predicting", 1, 2)
    result.orders = _orders(rows, seconds)
    if result.orders:
        result.note(ranking(result.orders))
    refused |= _meetings(result, tested, kept)
    progress("predicting", 2, 2)
    result.not_predicted += [(int(tested.line[index]), reason) for index, reason in refused.items()]
    spoken_of = {row.line for row in result.every} | {line for line, _ in result.not_predicted}
    result.not_predicted += [
        (int(line), "neither an overlap policy, nor a parameter server, nor gossip")
        for line in tested.line
        if line not in spoken_of
    ]
    return result


@cache
def _public_rows() -> list[PolicyRow]:
    return policy_rows(packaged_table(TABLE, REQUIRED))[0]


def _policies(
    result: OverlapReference,
    rows: Sequence[PolicyRow],
    known: Sequence[PolicyRow],
    tested: Columns,
    kept: Sequence[Mapping[str, str]],
) -> dict[int, float]:
    """Add each row twice; returns the corrected seconds by index."""
    costs = {key: _costs(key, known) for key in sorted({(row.cluster, row.model) for row in rows})}
    seconds = {}
    for row in rows:
        corrected, words = costs[row.cluster, row.model]
        seconds[row.index] = step_seconds(row, corrected)
        groups = ("overlap policies", f"policy {row.policy}", f"cluster {row.cluster}")
        line, identity = int(tested.line[row.index]), kept[row.index]
        result.every.append(
            StepRow(line, identity, seconds[row.index], row.measured, words, "counted", groups)
        )
        plain = step_seconds(row, Costs())
        published = "published alpha and beta"
        result.every.append(
            StepRow(
                line,
                identity,
                plain,
                row.measured,
                published,
                "apart",
                (published, *groups[1:]),
                reason="predicted by published constants as they stand",
            )
        )
    return seconds


def _costs(key: tuple[str, str], known: Sequence[PolicyRow]) -> tuple[Costs, str]:
    """The costs for a model on a cluster, from other models there."""
    cluster, model = key
    others = [row for row in known if row.cluster == cluster and row.model != model]
    if len({row.model for row in others}) < _FEWEST_MODELS:
        return Costs(), "published alpha and beta, too few models to correct them"
    return fit(others), "published alpha and beta, corrected on other models of the cluster"


def _orders(rows: Sequence[PolicyRow], seconds: Mapping[int, float]) -> list[Order]:
    """The settings with several policies."""
    settings: dict[tuple[str, ...], list[PolicyRow]] = {}
    for row in rows:
        settings.setdefault(row.setting, []).append(row)
    orders = []
    for setting, same in settings.items():
        measured = {row.policy: row.measured for row in same}
        predicted = {row.policy: seconds[row.index] for row in same}
        if len(same) > 1:
            orders.append(Order(setting, measured, predicted))
    return orders


def ranking(orders: Sequence[Order]) -> str:
    """How often policies rank as measured, in words."""
    pairs = [right for order in orders for right in order.pairs()]
    clear = [right for order in orders for right in order.pairs(_CLOSE)]
    return (
        f"policies rank as measured in {sum(order.right for order in orders)} of {len(orders)} "
        "settings, "
        f"{sum(pairs)} of {len(pairs)} pairs, {sum(clear)} of {len(clear)} pairs more than "
        f"{_CLOSE:.0%} apart"
    )


def _meetings(
    result: OverlapReference, tested: Columns, kept: Sequence[Mapping[str, str]]
) -> dict[int, str]:
    """Add the rows of parameter servers and gossip."""
    found, refused = rows_without_all_reduce(tested)
    # By a throughput where no time is stated, as the rows of scaling are.
    measured, quality = stated_step(tested), tested.text("quality")
    for row in found:
        if not np.isfinite(measured[row.index]):
            refused[row.index] = "neither a step time nor a throughput is stated"
            continue
        status, reason = by_quality(str(quality[row.index]))
        times = row.seconds, float(measured[row.index])
        groups = (row.aggregation, f"{row.aggregation}, {kept[row.index]['model']}")
        result.every.append(
            StepRow(
                int(tested.line[row.index]),
                kept[row.index],
                *times,
                row.constants,
                status,
                groups,
                reason=reason,
            )
        )
    return refused
