"""Memory as tables for a terminal: the parts, the sharding stages, and learners."""

from __future__ import annotations

from collections.abc import Iterable

from rich.table import Table

from dpsim.base.terminal import table
from dpsim.base.units import DATA, human
from dpsim.engine import MemoryUse
from dpsim.report.text.model_error import interval_notes
from dpsim.report.text.tables import amount
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
    title = f"{name}: {_size(held.total)} of {_size(use.capacity)} on each {use.gpu}"
    rows = (
        (PART_NAMES[part], _size(size), f"{size / use.capacity:.1%}")
        for part, size in held.parts().items()
    )
    return table(title, ("part", "memory", "share of the GPU"), rows, left=("part",))


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
    text = ("stage", "checkpointing")
    headings = (*text, "model state", "activations", "total", "spare", "largest batch")
    rows = []
    for each in use.alternatives():
        held = each.held
        spare = _size(each.spare) if each.fits else f"-{_size(-each.spare)}"
        checkpointing = "yes" if each.setup.checkpointing else "no"
        sizes = (_size(size) for size in (held.model_state, held.activations, held.total))
        stage = STAGE_NAMES[each.setup.stage]
        rows.append((stage, checkpointing, *sizes, spare, str(each.largest_batch)))
    return table("by sharding stage and checkpointing", headings, rows, left=text)


def learners_table(rows: Iterable[LearnersRow]) -> Table:
    """Return the best number of learners per GPU for each batch, and its gain."""
    headings = ("batch per learner", "best number", "samples/s of one", "samples/s of all")
    cells = (
        (
            str(row.batch),
            str(row.best),
            amount(row.samples_per_s_alone),
            amount(row.samples_per_s_best),
        )
        for row in rows
    )
    return table("learners that share a GPU", headings, cells, left=headings[:1])


def _size(size: float) -> str:
    return human(size, DATA, 3)
