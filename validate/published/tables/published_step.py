"""A row of a table of step times as a scenario, beside what was measured."""

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
    """One row.

    ``scenario`` is what a scenario's file would hold; it names the ``files`` beside it, which hold
    these texts. Of several ``checkpoints`` the first counts that leaves room, where a row does not
    say what is computed again. ``measured`` is in seconds a step. ``work`` is what a GPU does in a
    step (samples, or tokens where lengths differ): at the same time for each, steps are as their
    work. Rows of one ``series`` may be predicted from one that is known. ``software`` is what the
    row states of its software, in a scenario's words, also those that scenarios do not know yet.
    ``constants`` says what the constants of its prediction saw, ``memory`` is the measured peak in
    bytes, and ``steps`` are those of a whole training where a row is about one. ``shown`` are
    further entries of its JSON.
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
        """Its own name in the table, or its number there."""
        return self.row.row_id


def published_step(
    row: Row, *, name: str, cluster: Content, workload: Content, strategy: Content, **more: Any
) -> PublishedStep:
    """The row as a scenario of these parts; ``more`` are further fields of a `PublishedStep`.

    A row counts by its ``quality``, and its GPUs do as many samples as the workload says.
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
    # Of a scenario's other parts a row may say something, too.
    scenario |= more.pop("beside", {})
    return PublishedStep(row=row, scenario=scenario, **{**fields, **more})


Read = Callable[[Row], PublishedStep]
Known = Callable[[Sequence[PublishedStep]], Sequence[PublishedStep]]


@dataclass(frozen=True, slots=True)
class StepTable:
    """How tables of one kind are read.

    ``reader`` is given all rows, and gives what reads one of them; that raises NotPredictedError
    for rows that dpsim does not simulate. ``identity`` are the columns that answers show of a row.
    ``known`` says which rows of a series the regime *calibrated* knows; None where the kind has no
    such regime. With ``plans`` it knows as many as are asked for, chosen as `dpsim calibrate
    --plan` proposes, and step constants are fitted to them. ``fitted`` is the public table that
    constants of computing are fitted to, if any, and ``group`` what is left out of the fit with a
    row of it. ``beside`` is given all predicted rows, and gives what else the answer has: entries
    of its JSON, and notes.
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
    """The row on the fewest GPUs: of several the first that counts."""
    return [min(series, key=lambda step: (step.status != "counted", step.gpus))]


def smallest_runs(series: Sequence[PublishedStep]) -> Sequence[PublishedStep]:
    """All rows on the fewest GPUs."""
    fewest = min(step.gpus for step in series)
    return [step for step in series if step.gpus == fewest]
