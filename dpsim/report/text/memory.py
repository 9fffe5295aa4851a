"""Memory as tables for a terminal: the parts, the sharding stages, and learners."""

from __future__ import annotations

from collections.abc import Iterable

from rich.table import Table

from dpsim.base.units import DATA, human
from dpsim.engine import MemoryUse
from dpsim.report.text.model_error import interval_notes
from dpsim.workload import STAGE_NAMES, LearnersRow

PART_NAMES = {
    "weights": "weights",
    "gradients": "gradients",
    "optimizer": "optimiser state",
    "activations": "activations kept for backward",
    "loss": "fp32 logits (temporary)",
    "buckets": "communication buffers",
    "fragmentation": "fragmentation allowance",
    "context": "framework and CUDA context",
}


def parts_table(name: str, use: MemoryUse) -> Table:
    """Return a table of the parts of one GPU's memory."""
    held = use.held
    table = _table(
        f"{name}: {_size(held.total)} of {_size(use.capacity)} on each {use.gpu}", "part"
    )
    for heading in ("memory", "share of the GPU"):
        table.add_column(heading, justify="right")
    for part, size in held.parts().items():
        table.add_row(PART_NAMES[part], _size(size), f"{size / use.capacity:.1%}")
    return table


def memory_notes(use: MemoryUse) -> list[str]:
    """Return whether it fits, with which certainty, the largest batch, and advice if it does not.

    A line each.
    """
    setup, verdict = (
        use.setup,
        f"fits, with {_size(use.spare)} to spare"
        if use.fits
        else f"does not fit, by {_size(-use.spare)}",
    )
    model = use.model
    per_parameter = use.held.model_state / model.parameters
    # By the rounded number: 1.0001 is shown as 1.
    several = "byte" if f"{per_parameter:.3g}" == "1" else "bytes"
    part = f"{model.trained:,} trained, " if model.trained < model.parameters else ""
    lines = [
        f"verdict     {verdict}",
        *interval_notes(use.interval, _size),
        *(f"warning     {warning}" for warning in use.warnings),
        f"state       {per_parameter:.3g} {several} on a GPU for each of {model.parameters:,} "
        f"parameters ({part}{setup.optimizer}, {setup.precision}, {STAGE_NAMES[setup.stage]} on "
        f"{setup.shards if setup.stage else setup.workers} workers)",
        f"batch       {setup.batch} samples a pass; at most {use.largest_batch} fit",
    ]
    return lines + [f"remedy      {text}" for text in use.advice()]


def stages_table(use: MemoryUse) -> Table:
    """Return total, room and largest batch by sharding stage, without and with checkpointing."""
    table = _table("by sharding stage and checkpointing", "stage")
    table.add_column("checkpointing")
    for heading in ("model state", "activations", "total", "spare", "largest batch"):
        table.add_column(heading, justify="right")
    for each in use.alternatives():
        held = each.held
        spare = _size(each.spare) if each.fits else f"-{_size(-each.spare)}"
        checkpointing = "yes" if each.setup.checkpointing else "no"
        sizes = (_size(size) for size in (held.model_state, held.activations, held.total))
        table.add_row(
            STAGE_NAMES[each.setup.stage], checkpointing, *sizes, spare, str(each.largest_batch)
        )
    return table


def learners_table(rows: Iterable[LearnersRow]) -> Table:
    """Return the best number of learners per GPU for each batch, and its gain."""
    table = _table("learners that share a GPU", "batch per learner")
    for heading in ("best number", "samples/s of one", "samples/s of all"):
        table.add_column(heading, justify="right")
    for row in rows:
        table.add_row(
            str(row.batch),
            str(row.best),
            f"{row.samples_per_s_alone:,.0f}",
            f"{row.samples_per_s_best:,.0f}",
        )
    return table


def _table(title: str, first: str) -> Table:
    table = Table(title=title, title_justify="left", show_edge=False)
    table.add_column(first)
    return table


def _size(size: float) -> str:
    return human(size, DATA, 3)
