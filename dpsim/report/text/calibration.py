"""Measured runs beside their predictions by a calibration, as a table."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rich.table import Table

from dpsim.base.terminal import table
from dpsim.base.units import TIME, human


def runs_table(title: str, rows: Sequence[dict[str, Any]]) -> Table:
    """Return measured and predicted runs, and their errors when left out of the fit, if known."""
    headings = ["nodes", "GPUs a node", "batch", "measured", "predicted", "error"]
    has_left_out = any("left_out" in row for row in rows)
    headings += ["left out"] if has_left_out else []
    shown = []
    for row in rows:
        times = (row["measured_ms"], row["predicted_ms"])
        cells = [str(row[key]) for key in ("nodes", "gpus_per_node", "batch")]
        cells += [human(each * 1e-3, TIME) for each in times]
        cells.append(f"{times[1] / times[0] - 1:+.1%}")
        if has_left_out:
            remark = "needed" if "left_out" in row else ""
            error = row.get("left_out")
            cells.append(remark if error is None else f"{error:+.1%}")
        shown.append(cells)
    return table(title, headings, shown)
