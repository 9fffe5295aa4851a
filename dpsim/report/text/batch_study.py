"""A batch-size study as a table and a line of what it teaches."""

from __future__ import annotations

from rich.table import Table

from dpsim.base.units import TIME, human
from dpsim.studies.scale import BatchPoint, BatchStudy

_HEADINGS = (
    "workers",
    "batch per GPU",
    "global batch",
    "step",
    "samples/s",
    "efficiency",
    "steps to target",
    "hours",
    "GPU hours",
    "",
)


def batch_study_table(study: BatchStudy) -> Table:
    """A row for each point; the best batch of each number of nodes is marked."""
    table = Table(title=f"compared by {_compared(study)}", title_justify="left", show_edge=False)
    table.add_column("nodes", justify="right")
    for heading in _HEADINGS:
        table.add_column(heading, justify="right" if heading else "left")
    best = study.best_by_nodes
    for point in study.points:
        table.add_row(
            *_cells(point), "best" if point in best and len(best) < len(study.points) else ""
        )
    return table


def batch_study_notes(study: BatchStudy) -> list[str]:
    """Where more workers stop helping, doubts about batches, and what was left out."""
    end = study.stops_helping_at_nodes
    grows = "each larger number of nodes still gains more than 5 %"
    lines = [
        grows
        if end is None
        else f"beyond {end} nodes, more workers gain less than 5 % in {_compared(study)}"
    ]
    for point in study.best_by_nodes:
        if point.to_target is not None and point.to_target.batch.verdict != "fine":
            lines.append(
                f"{point.nodes} nodes, {point.to_target.batch.verdict}: "
                f"{point.to_target.batch.text}"
            )
    return lines + [f"left out: {reason}" for reason in study.left_out]


def _compared(study: BatchStudy) -> str:
    target = study.points[0].to_target
    return (
        "throughput" if target is None else f"time to {target.task.target} ({target.task.method})"
    )


def _cells(point: BatchPoint) -> list[str]:
    result, target = point.result, point.to_target
    known = ["", "", ""]
    if target is not None:
        known = [f"{target.steps:,.0f}", f"{target.time_s / 3600:,.2f}", f"{target.gpu_hours:,.1f}"]
    return [
        f"{point.nodes:,}",
        f"{result.workers:,}",
        f"{point.batch_per_gpu:,}",
        f"{point.global_batch:,}",
        human(result.step_time_s["mean"], TIME, 3),
        f"{result.throughput_samples_per_s:,.0f}",
        f"{result.scaling_efficiency:.1%}",
        *known,
    ]
