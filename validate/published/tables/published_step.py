"""A row of a table of step times as a scenario, with its measurement."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, get_args

from validate.published.tables.csv_file import Row

StepKind = Literal[
    "single-gpu", "adaptdl", "vtrain", "scaling", "overlap", "imagenet", "llm", "mlperf", "steps"
]
STEP_KINDS: tuple[StepKind, ...] = get_args(StepKind)
Regime = Literal["specification", "calibrated"]
Status = Literal["counted", "apart", "fitted on"]
Content = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class PublishedStep:
    """One row of a table of step times.

    ``scenario`` is the content of a scenario file; it names the ``files`` beside it, which hold
    these texts. If a row does not say what is recomputed, the first of several ``checkpoints`` that
    fits the memory is used. ``measured`` is in seconds per step. ``work`` is the work of a GPU in a
    step (samples, or tokens where lengths differ): the naive prediction scales steps by it. Rows of
    one ``series`` may be predicted from a known one. ``software`` is the software that the row
    states, in a scenario's words, also those that scenarios do not know yet. ``constants`` says
    what its constants were fitted on, ``memory`` is the measured peak in bytes, and ``steps`` is
    the number of steps if the row is about a whole training. ``shown`` are further entries of its
    JSON.
    """

    row: Row
    scenario: Content
    measured: float
    gpus: int
    work: float
    groups: tuple[str, ...]
    status: Status = "counted"
    reason: str | None = None
    series: str = ""
    checkpoints: Sequence[Any] = ()
    files: Mapping[str, str] = field(default_factory=dict)
    software: Content = field(default_factory=dict)
    constants: str = "shipped"
    memory: float | None = None
    steps: float | None = None
    shown: Content = field(default_factory=dict)

    @property
    def row_id(self) -> str:
        """The row's own name in the table, or its number there."""
        return self.row.row_id


def published_step(
    row: Row, *, name: str, cluster: Content, workload: Content, strategy: Content, **more: Any
) -> PublishedStep:
    """Return the row as a scenario of these parts; ``more`` are further `PublishedStep` fields.

    A row counts by its ``quality``, and its GPUs process the workload's number of samples.
    """
    lacking = row.text("quality") not in ("", "ok")
    reason = f"quality: {row.text('quality')}" if lacking else None
    parts = cluster.get("groups", [cluster])
    fields: dict[str, Any] = {
        "gpus": sum(part["nodes"] * part["gpus_per_node"] for part in parts),
        "work": workload["batch_per_gpu"] * workload.get("gradient_accumulation", 1),
        "status": "apart" if lacking else "counted",
        "reason": reason,
    }
    scenario = {"name": name, "cluster": cluster, "workload": workload, "strategy": strategy}
    # A row may also state other parts of a scenario.
    scenario |= more.pop("beside", {})
    return PublishedStep(row=row, scenario=scenario, **{**fields, **more})


Read = Callable[[Row], PublishedStep]
Known = Callable[[Sequence[PublishedStep]], Sequence[PublishedStep]]


@dataclass(frozen=True, slots=True)
class StepTable:
    """How to read tables of one kind.

    ``reader`` takes all rows and returns the function that reads one; this raises NotPredictedError
    for rows that dpsim does not simulate. ``identity`` are the columns that answers show of a row.
    ``known`` returns the rows of a series that the regime *calibrated* knows; None if the kind has
    no such regime. With ``plans`` it knows as many rows as requested, chosen as `dpsim calibrate
    --plan` proposes, and step constants are fitted to them. ``fitted`` is the public table that
    compute constants are fitted to, if any, and ``group`` returns the group left out of the fit
    with a row. ``beside`` takes all predicted rows and returns the rest of the answer: entries of
    its JSON, and notes.
    """

    required: Sequence[str]
    identity: Sequence[str]
    reader: Callable[[Sequence[Row]], Read]
    known: Known | None = None
    plans: bool = False
    fitted: str | None = None
    group: Callable[[Row], str] | None = None
    beside: Callable[[Sequence[Any]], tuple[Mapping[str, Any], Sequence[str]]] | None = None


def smallest_run(series: Sequence[PublishedStep]) -> Sequence[PublishedStep]:
    """Return the row on the fewest GPUs, preferably the first of several that counts."""
    return [min(series, key=lambda step: (step.status != "counted", step.gpus))]


def smallest_runs(series: Sequence[PublishedStep]) -> Sequence[PublishedStep]:
    """Return all rows on the fewest GPUs."""
    fewest = min(step.gpus for step in series)
    return [step for step in series if step.gpus == fewest]
