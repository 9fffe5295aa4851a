"""Memory as tables for a terminal: the parts, the sharding stages, and learners."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from rich.table import Table

from dpsim.base.terminal import table
from dpsim.base.units import DATA, amount, human
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
    rows = (
        (PART_NAMES[part], "not known", "")
        if size is None
        else (PART_NAMES[part], _size(size), f"{size / use.capacity:.1%}")
        for part, size in use.parts().items()
    )
    title = f"{name}: {total_of_capacity(use)}"
    return table(title, ("part", "memory", "share of the GPU"), rows, left=("part",))


def total_of_capacity(use: MemoryUse) -> str:
    """Return the memory in use on a GPU, and its capacity; without activations "at least"."""
    least = "at least " if use.is_partial else ""
    unknown = ", activations not known" if use.is_partial else ""
    return f"{least}{_size(use.held.total)} of {_size(use.capacity)} on each {use.gpu}{unknown}"


def sample_notes(words: Mapping[str, Any]) -> list[str]:
    """Return the meaning of a sample, if its length or its second sequence's length is assumed."""
    is_pair = " and " in words["sample"] or "pair" in words["sample"]
    # A scenario states the length of the first sequence alone.
    assumed = [*words["assumed"], *(["second length"] if is_pair else [])]
    if words["sequence_length"] is None or not assumed:
        return []
    return [f"sample      {words['sample']} (assumed: {', '.join(assumed)})"]


def memory_notes(use: MemoryUse) -> list[str]:
    """Return whether it fits, with which certainty, the largest batch, and advice if it does not.

    A line each.
    """
    setup, model = use.setup, use.model
    verdict = f"fits, with {_size(use.spare)} to spare"
    if not use.fits:
        verdict = f"does not fit, by {_size(-use.spare)}"
    elif use.is_partial:
        verdict = "not known, since the model's profile states no activations"
    interval = use.interval
    most = "" if use.is_partial else f"; at most {use.largest_batch} fit"
    per_parameter = use.held.model_state / model.parameters
    # The rounded number decides between singular and plural, since 1.0001 is shown as 1.
    several = "byte" if f"{per_parameter:.3g}" == "1" else "bytes"
    part = f"{model.trained:,} trained, " if model.trained < model.parameters else ""
    lines = [
        f"verdict     {verdict}",
        *([] if interval is None else interval_notes(interval, _size)),
        *(f"warning     {warning}" for warning in use.warnings),
        f"state       {per_parameter:.3g} {several} on a GPU for each of {model.parameters:,} "
        f"parameters ({part}{setup.optimizer}, {setup.precision}, {STAGE_NAMES[setup.stage]} on "
        f"{setup.shards if setup.stage else setup.workers} workers)",
        f"batch       {setup.batch} samples a pass{most}",
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
