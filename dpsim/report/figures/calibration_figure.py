"""Measured runs of one's own cluster against their predictions, fitted and held out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import plotly.graph_objects as go

from dpsim.base.units import TIME, human
from dpsim.report.figures.measured_figure import Pair, measured_figure
from dpsim.report.figures.style import Answer


def calibration_figure(calibrated: Answer) -> go.Figure:
    """Draw the rows of ``dpsim calibrate --json``, a point for each run."""
    rows = {"fitted to": calibrated["rows"], "held out": calibrated["held_out"]["rows"]}
    groups = {name: _pairs(runs) for name, runs in rows.items() if runs}
    title = (
        "Steps as measured and as predicted<br><sub>Upright lines are 90 % intervals; "
        "held-out runs show how far to trust it.</sub>"
    )
    figure = measured_figure(groups, "step", "s", title)
    # A cluster's steps differ by less than a power of ten, the distance of plotly's ticks.
    seconds = [pair.measured for pairs in groups.values() for pair in pairs]
    ticks = [digit * 10.0**power for power in range(-6, 7) for digit in (1, 2, 5)]
    near = [tick for tick in ticks if min(seconds) / 3 < tick < max(seconds) * 3]
    axis = {"tickvals": near, "ticktext": [human(tick, TIME) for tick in near], "dtick": None}
    return figure.update_xaxes(axis).update_yaxes(axis)


def _pairs(rows: Sequence[Mapping[str, Any]]) -> list[Pair]:
    pairs = []
    for row in rows:
        name = f"{row['nodes']} x {row['gpus_per_node']} GPUs, batch {row['batch']}"
        ends = [None if row[key] is None else row[key] * 1e-3 for key in ("low_ms", "high_ms")]
        pairs.append(Pair(name, row["measured_ms"] * 1e-3, row["predicted_ms"] * 1e-3, *ends))
    return pairs
