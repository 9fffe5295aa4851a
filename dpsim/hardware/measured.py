"""Measurements that a calibration profile keeps, and the errors of the fit to them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import AfterValidator, Field, PositiveFloat, PositiveInt, model_validator

from dpsim.base.config import Config

if TYPE_CHECKING:
    from dpsim.base.arrays import FloatArray

Counted = Literal["fitted rows", "held-out rows"]


class Parameter(Config):
    """A fitted number."""

    value: float = Field(description="The fitted value, in ``unit``.")
    unit: str = Field(description="Its SI unit: s, B/s, or 1 for a plain number.")
    standard_error: float | None = Field(
        default=None, ge=0, description="Standard deviation of bootstrap fits, in ``unit``."
    )
    low: float | None = Field(default=None, description="2.5th percentile of bootstrap fits.")
    high: float | None = Field(default=None, description="97.5th percentile of bootstrap fits.")


def _value_between(least: float, most: float) -> AfterValidator:
    def check(parameter: Parameter) -> Parameter:
        if not least <= parameter.value <= most:
            raise ValueError(f"value must be from {least:g} to {most:g}")
        return parameter

    return AfterValidator(check)


_MOST_SECONDS = 1e6  # of a layer or an operation, so that results stay finite
Seconds = Annotated[float, Field(ge=0, le=_MOST_SECONDS)]
FittedSeconds = Annotated[Parameter, _value_between(0, _MOST_SECONDS)]
Constant = Annotated[Parameter, _value_between(0, 1e9)]


class Measured(Config):
    """Times of one operation by size: the medians or means that a tool printed."""

    operation: str = Field(description="The collective operation, such as all-reduce.")
    ranks: PositiveInt = Field(description="Number of ranks.")
    hosts: PositiveInt = Field(description="Number of hosts.")
    devices: tuple[str, ...] = Field(
        description="Device kinds in the tool's names, without repetitions; for the record."
    )
    sizes_bytes: tuple[PositiveInt, ...] = Field(
        min_length=1, description="Bytes of one rank's vector, one entry per row."
    )
    times_s: tuple[Seconds, ...] = Field(
        description="Seconds of each row, out of place if both were measured."
    )
    in_place_times_s: tuple[Seconds | None, ...] = Field(
        default=(), description="Seconds of each row in place, if measured; for the record."
    )
    backend: str = Field(
        default="nccl", description="The library that carried it out: nccl, gloo or mpi."
    )
    servers: PositiveInt | None = Field(
        default=None, description="Number of servers, for pushes and pulls."
    )

    @model_validator(mode="after")
    def _check_times(self) -> Measured:
        if len(self.times_s) != len(self.sizes_bytes):
            raise ValueError(
                f"times_s must have a time for each of {len(self.sizes_bytes)} sizes, but has "
                f"{len(self.times_s)}"
            )
        return self


class Residuals(Config):
    """Relative errors |predicted - measured| / measured of the fitted model, as fractions."""

    counted_on: Counted = Field(
        description=(
            "Whether the fit used these rows. If so, the errors show the quality of the fit, not "
            "of predictions."
        )
    )
    n: int = Field(ge=0, description="Number of rows.")
    median_ape: float = Field(ge=0)
    mean_ape: float = Field(ge=0)
    p95_ape: float = Field(ge=0)
    worst_ape: float = Field(ge=0)
    worst_bytes: int = Field(
        ge=0, description="Size of the row with the largest error; 0 if rows have no size in bytes."
    )

    @classmethod
    def of(
        cls,
        errors: Sequence[float] | FloatArray,
        counted_on: Counted,
        sizes: Sequence[int] = (),
    ) -> Residuals:
        """Summarise relative errors, one per row; ``sizes`` are the rows' bytes."""
        import numpy as np

        from dpsim.base.uncertainty import error_summary

        worst = sizes[int(np.abs(errors).argmax())] if sizes else 0
        return cls(counted_on=counted_on, **error_summary(errors), worst_bytes=worst)

    def __str__(self) -> str:
        """Return the mean error and which rows it covers."""
        return f"off by {self.mean_ape:.1%} on average over {self.n} {self.counted_on}"


class MeasuredModel(Config):
    """Measured times of a model's layers on a device, forward and backward.

    One row per batch size, one number per layer. ``low`` and ``high``: 2.5th and 97.5th percentiles
    of bootstrap samples.
    """

    model: str = Field(
        description="Name of the model, for the record; it is recognised by its layers' names."
    )
    device: str = Field(description="Device of the measurement, for the record.")
    precision: str | None = Field(
        default=None, description="Precision of the measurement; any precision if left out."
    )
    tokens: PositiveInt | None = Field(
        default=None, description="Tokens per sample, for sequence models."
    )
    software: dict[str, str] = Field(
        default={},
        description=(
            "Software fields of the workload at measurement, such as execution: eager; a field "
            "left out may have any value."
        ),
    )
    layers: tuple[str, ...] = Field(
        min_length=1, description="The layers' names, in forward order."
    )
    batch_sizes: tuple[PositiveInt, ...] = Field(
        min_length=1, description="Samples of each row, in ascending order."
    )
    forward_s: tuple[tuple[Seconds, ...], ...] = Field(
        description="Seconds of each layer's forward pass."
    )
    forward_low_s: tuple[tuple[Seconds, ...], ...] = Field(
        description="Lower interval bound of each time, for the record."
    )
    forward_high_s: tuple[tuple[Seconds, ...], ...] = Field(
        description="Upper interval bound of each time, for the record."
    )
    backward_s: tuple[tuple[Seconds, ...], ...] = Field(
        description="Seconds of each layer's backward pass."
    )
    backward_low_s: tuple[tuple[Seconds, ...], ...] = Field(
        description="Lower interval bound of each time, for the record."
    )
    backward_high_s: tuple[tuple[Seconds, ...], ...] = Field(
        description="Upper interval bound of each time, for the record."
    )
    optimizers: dict[str, FittedSeconds] = Field(
        default={}, description="Seconds of the update, by optimiser."
    )
    wrapped: dict[str, FittedSeconds] = Field(
        default={},
        description=(
            "Extra compute seconds per step if torch's ddp or fsdp2 wraps the model: their copies "
            "and calls, without communication."
        ),
    )

    @model_validator(mode="after")
    def _check_rows(self) -> MeasuredModel:
        for name in ("forward", "backward"):
            for field in (f"{name}_s", f"{name}_low_s", f"{name}_high_s"):
                if [len(row) for row in getattr(self, field)] != [len(self.layers)] * len(
                    self.batch_sizes
                ):
                    raise ValueError(
                        f"{field} must have {len(self.batch_sizes)} rows (one a batch size) of "
                        f"{len(self.layers)} layers"
                    )
        return self


class RankSpread(Config):
    """Compute times of concurrent ranks, relative to the measured layer times."""

    ranks: PositiveInt = Field(description="Number of ranks that computed at the same time.")
    pace: PositiveFloat = Field(
        le=1e3,
        description=(
            "Mean compute time of a step over all ranks, relative to the sum of the layers' "
            "times; above 1 if ranks slow each other down or times have a tail."
        ),
    )
    jitter: dict[str, float | str] = Field(
        description="Variation of the ranks' times around their mean, as ``disturbance.jitter``."
    )
