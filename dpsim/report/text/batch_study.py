"""A batch-size study as a table and lines of conclusions."""

from __future__ import annotations

from rich.table import Table

from dpsim.base.terminal import table
from dpsim.base.units import TIME, human, plural
from dpsim.report.text.model_error import WITHIN, within_cell
from dpsim.report.text.tables import rate_cells, total_cells
from dpsim.studies.cautions import cautions
from dpsim.studies.scale import BatchPoint, BatchStudy

_TARGET = ("steps to target", "hours", "GPU hours")


def batch_study_table(study: BatchStudy) -> Table:
    """Return a row for each point; the best batch of each number of nodes is marked."""
    passes = any(point.gradient_accumulation > 1 for point in study.points)
    tokens = any(point.result.utilisation.tokens_per_s is not None for point in study.points)
    rows = [_cells(point, passes=passes, tokens=tokens) for point in study.points]
    best = study.best_by_nodes
    for point, row in zip(study.points, rows, strict=True):
        # Mark no row if there is one batch for each number of nodes, since each row is the best.
        is_best = point in best and len(best) < len(study.points)
        row[""] = "best" if is_best else ""
    cells = (row.values() for row in rows)
    return table(f"compared by {_figure_compared(study)}", rows[0], cells, left=("",))


def batch_study_notes(study: BatchStudy) -> list[str]:
    """Return where more workers stop helping, warnings, extrapolations and omissions."""
    end = study.stops_helping_at_nodes
    lines: list[str] = []
    if end is not None:
        figure = _figure_compared(study)
        beyond = plural(end, "node")
        lines.append(f"beyond {beyond}, more workers are not known to gain 5 % in {figure}")
    elif len(study.best_by_nodes) > 1:
        lines.append("each larger number of nodes still gains more than 5 %")
    for point in study.best_by_nodes:
        if point.to_target is not None and point.to_target.batch.verdict != "fine":
            lines.append(
                f"{plural(point.nodes, 'node')}, {point.to_target.batch.verdict}: "
                f"{point.to_target.batch.text}"
            )
    lines += cautions(
        (f"{plural(point.nodes, 'node')}, {point.batch_per_gpu} per GPU", point.result)
        for point in study.points
    )
    return lines + [f"left out: {reason}" for reason in study.left_out]


def _figure_compared(study: BatchStudy) -> str:
    target = study.points[0].to_target
    if target is None or not study.compares_time_to_target:
        return "throughput"
    return f"time to {target.task.target} ({target.task.method})"


def _cells(point: BatchPoint, *, passes: bool, tokens: bool) -> dict[str, str]:
    """Return a row by heading; ``passes``, ``tokens``: whether to show these columns."""
    result, training = point.result, point.training
    training_cells = dict.fromkeys(_TARGET, "")
    if training is not None:
        hours = f"{training.time_s / 3600:,.2f}"
        taken = (f"{training.steps:,.0f}", hours, f"{training.gpu_hours:,.1f}")
        training_cells = dict(zip(_TARGET, taken, strict=True))
    accumulated = {"passes": f"{point.gradient_accumulation:,}"} if passes else {}
    return {
        "nodes": f"{point.nodes:,}",
        "workers": f"{result.workers:,}",
        "batch per GPU": f"{point.batch_per_gpu:,}",
        **accumulated,
        "global batch": f"{point.global_batch:,}",
        "step": human(result.step_time_s["mean"], TIME, 3),
        WITHIN: within_cell(result.interval),
        **rate_cells(result, tokens=tokens),
        "efficiency": f"{result.scaling_efficiency:.1%}",
        # The total that the scenario requests replaces the training to the target.
        **(training_cells if result.total is None else total_cells(result.total)),
    }
