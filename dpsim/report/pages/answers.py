"""Models of the JSON that pages read from each command, to reject edited or truncated files.

Keys that no page reads may hold anything.
"""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from dpsim.engine import PARTS, PartName
from dpsim.report.text.memory import PART_NAMES


def _bounded(number: float) -> float:
    """Reject numbers with which the figures' sums and ratios would overflow."""
    if not 1e-100 <= abs(number or 1) <= 1e100:
        raise ValueError("must be 0 or from 1e-100 to 1e100 in size")
    return number


# Strict, since pydantic would accept the text "1" as a number, with which figures cannot compute.
_Number = Annotated[float, Field(strict=True, allow_inf_nan=False), AfterValidator(_bounded)]
_Above0 = Annotated[_Number, Field(gt=0)]
_Count = Annotated[int, Field(strict=True, ge=0, le=2**64)]
_Versions = dict[str, str]


def _part_of_memory(name: str) -> str:
    if name not in PART_NAMES:
        raise ValueError(f"must be one of {', '.join(PART_NAMES)}, but got {name!r}")
    return name


_MemoryPart = Annotated[str, AfterValidator(_part_of_memory)]


class _Part(BaseModel):
    model_config = ConfigDict(extra="allow")


class _StepTime(_Part):
    mean: _Above0
    median: _Number
    p95: _Number
    low: _Number
    high: _Number


class _Gap(_Part):
    mean: _Number
    max: _Count
    histogram: list[_Count]


class _Staleness(_Part):
    clock_gap: _Gap
    versions: _Gap
    dropped: _Number


class _Memory(_Part):
    gpu: str
    parts_bytes: dict[_MemoryPart, _Number]
    total_bytes: _Number
    capacity_bytes: _Above0
    fits: bool


class _Cost(_Part):
    currency: str
    per_million_samples: _Number


class _Energy(_Part):
    gpu_power_W: _Number
    source: str


class _Measured(_Part):
    step_time: _Number
    compute_scale: _Number
    nodes: _Count
    source: str


class _Cell(_Part):
    cell: _Count
    step_time: _Number
    compute_scale: _Number
    source: str


class _Scaled(_Part):
    compute_scale: _Number
    source: str


class _Residuals(_Part):
    mean_ape: _Number
    worst_ape: _Number
    n: _Count
    counted_on: str


class _Profile(_Part):
    name: str
    compute: str
    residuals: _Residuals


class _Interval(_Part):
    low: _Number
    high: _Number
    confidence: _Number
    extrapolated: list[str]


class SweptAnswer(_Part):
    """A point of ``dpsim sweep``, in the form of ``dpsim run`` as far as possible."""

    name: str
    workers: Annotated[_Count, Field(gt=0)]
    step_time_s: _StepTime
    # The names are checked, so with this length none is missing.
    parts_s: Annotated[dict[PartName, _Number], Field(min_length=len(PARTS))]
    throughput_samples_per_s: _Above0
    scaling_efficiency: _Above0
    bytes_sent_per_worker: _Number
    tokens_per_s: _Number | None = None
    mfu: _Number | None = None
    interval_s: _Interval | None = None


class RunAnswer(SweptAnswer):
    """The JSON of ``dpsim run``."""

    staleness: _Staleness
    memory: _Memory | None = None
    cost: _Cost | None = None
    energy: _Energy | None = None
    calibration: str | _Profile | _Measured | _Cell | _Scaled = "catalogue"
    notes: list[str] = []
    provenance: _Versions = {}
    seed: _Count = 0


class VariantAnswer(RunAnswer):
    """A row of ``dpsim compare``."""

    variant: dict[str, Any]


class _OfBatch(_Part):
    text: str
    extrapolated: bool


class _ToTarget(_Part):
    dataset: str
    target: str
    global_batch: _Count
    steps: _Number | None
    epochs: _Number | None
    time_s: _Above0 | None
    low_s: _Number | None
    high_s: _Number | None
    gpu_hours: _Above0 | None
    batch: _OfBatch


class ScaleAnswer(RunAnswer):
    """A row of ``dpsim scale``."""

    nodes: _Count
    batch_per_gpu: _Count = 0
    to_target: _ToTarget | None = None


class CollectiveAnswer(_Part):
    """A row of ``dpsim collective``."""

    algorithm: str
    bytes: _Count
    time_s: _Number
    algbw_Bps: _Number
    busbw_Bps: _Number


class _Turned(_Part):
    change: str
    change_per_sample: _Number


class _Unturned(_Part):
    change: None


class ExplainAnswer(_Part):
    """The JSON of ``dpsim explain``."""

    name: str
    critical_path: dict[str, Any]
    knobs: list[_Turned | _Unturned]
    advice: list[str]
    provenance: _Versions = {}
    seed: _Count = 0
