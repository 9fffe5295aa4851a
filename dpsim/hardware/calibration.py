"""Calibration profiles: parameters fitted on measurements, with their errors.

They also contain the measurements, and the quality of the fit.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterable, Mapping, Sequence
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    BeforeValidator,
    Field,
    NonNegativeFloat,
    NonNegativeInt,
    PositiveFloat,
    PositiveInt,
    ValidationError,
    ValidationInfo,
    model_validator,
)

from dpsim.base.config import Config, first_problem
from dpsim.base.errors import DpsimError, suggestion
from dpsim.base.files import read_limited
from dpsim.hardware.transport import Transport

if TYPE_CHECKING:
    from dpsim.base.arrays import FloatArray

Counted = Literal["fitted rows", "held-out rows"]

COMPUTE = "compute"
_MOST_BYTES = 64 * 2**20
TRANSPORT = "transport"
NCCL_TESTS = "nccl-tests"
NODE = "node"
STEPS = "steps"


class Parameter(Config):
    """A fitted number."""

    value: float = Field(description="The fitted value, in ``unit``.")
    unit: str = Field(description="Its SI unit: s, B/s, or 1 for a plain number.")
    standard_error: float | None = Field(
        default=None, ge=0, description="Standard deviation of bootstrap fits, in ``unit``."
    )
    low: float | None = Field(default=None, description="2.5th percentile of bootstrap fits.")
    high: float | None = Field(default=None, description="97.5th percentile of bootstrap fits.")


def _within(least: float, most: float) -> AfterValidator:
    def check(parameter: Parameter) -> Parameter:
        if not least <= parameter.value <= most:
            raise ValueError(f"value must be from {least:g} to {most:g}")
        return parameter

    return AfterValidator(check)


_MOST_SECONDS = 1e6  # of a layer or an operation, so that results stay finite
_Seconds = Annotated[float, Field(ge=0, le=_MOST_SECONDS)]
_FittedSeconds = Annotated[Parameter, _within(0, _MOST_SECONDS)]
_Constant = Annotated[Parameter, _within(0, 1e9)]


class Measured(Config):
    """A measured table: one operation over sizes.

    Times are the medians or means that the tool printed.
    """

    operation: str = Field(description="The collective operation, such as all-reduce.")
    ranks: PositiveInt = Field(description="Number of ranks.")
    hosts: PositiveInt = Field(description="Number of hosts.")
    devices: tuple[str, ...] = Field(
        description="Device kinds in the tool's names, without repetitions; for the record."
    )
    sizes_bytes: tuple[PositiveInt, ...] = Field(
        min_length=1, description="Bytes of one rank's vector, one entry per row."
    )
    times_s: tuple[_Seconds, ...] = Field(
        description="Seconds of each row, out of place if both were measured."
    )
    in_place_times_s: tuple[_Seconds | None, ...] = Field(
        default=(), description="Seconds of each row in place, if measured; for the record."
    )
    backend: str = Field(
        default="nccl", description="The library that carried it out: nccl, gloo or mpi."
    )
    servers: PositiveInt | None = Field(
        default=None, description="Number of servers, for pushes and pulls."
    )

    @model_validator(mode="after")
    def _one_time_a_size(self) -> Measured:
        if len(self.times_s) != len(self.sizes_bytes):
            raise ValueError(
                f"times_s must have a time for each of {len(self.sizes_bytes)} sizes, but has "
                f"{len(self.times_s)}"
            )
        return self


class Residuals(Config):
    """Absolute percentage errors of the fitted model, as fractions.

    |predicted - measured| / measured.
    """

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
        """Return the residuals of relative errors, one per row; ``sizes`` are their bytes."""
        import numpy as np

        from dpsim.base.uncertainty import error_summary

        worst = sizes[int(np.abs(errors).argmax())] if sizes else 0
        return cls(counted_on=counted_on, **error_summary(errors), worst_bytes=worst)

    def __str__(self) -> str:
        """Return the mean error and the rows it covers, which may be those of the fit."""
        return f"off by {self.mean_ape:.1%} on average over {self.n} {self.counted_on}"


class MeasuredModel(Config):
    """Measured times of a model's layers on a device, forward and backward.

    One row per batch size, with one number per layer.

    ``low`` and ``high`` are the 2.5th and 97.5th percentiles over repetitions drawn with
    replacement.
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
    forward_s: tuple[tuple[_Seconds, ...], ...] = Field(
        description="Seconds of each layer's forward pass."
    )
    forward_low_s: tuple[tuple[_Seconds, ...], ...] = Field(
        description="Lower interval bound of each time, for the record."
    )
    forward_high_s: tuple[tuple[_Seconds, ...], ...] = Field(
        description="Upper interval bound of each time, for the record."
    )
    backward_s: tuple[tuple[_Seconds, ...], ...] = Field(
        description="Seconds of each layer's backward pass."
    )
    backward_low_s: tuple[tuple[_Seconds, ...], ...] = Field(
        description="Lower interval bound of each time, for the record."
    )
    backward_high_s: tuple[tuple[_Seconds, ...], ...] = Field(
        description="Upper interval bound of each time, for the record."
    )
    optimizers: dict[str, _FittedSeconds] = Field(
        default={}, description="Seconds of the update, by optimiser."
    )
    wrapped: dict[str, _FittedSeconds] = Field(
        default={},
        description=(
            "Extra compute seconds per step if torch's ddp or fsdp2 wraps the model: their copies "
            "and calls, without communication."
        ),
    )

    @model_validator(mode="after")
    def _a_time_a_layer(self) -> MeasuredModel:
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
    """Compute times of ranks that compute at once, relative to the measured layer times."""

    ranks: PositiveInt = Field(description="Number of ranks that computed at the same time.")
    pace: PositiveFloat = Field(
        le=1e3,
        description=(
            "Mean compute time of a step over all ranks, relative to the sum of the layers' "
            "times; above 1 if ranks slow each other down or times have a tail."
        ),
    )
    jitter: dict[str, float | str] = Field(
        description=(
            "Variation of the ranks' times around their mean, in the form of "
            "``disturbance.jitter``."
        )
    )


class KnownRun(Config):
    """A run whose step was measured; predictions near it are more certain."""

    nodes: PositiveInt = Field(description="Nodes whose GPUs were used.")
    gpus_per_node: PositiveInt = Field(description="GPUs used on the node with the most.")
    batch: PositiveInt = Field(description="Samples per GPU and pass.")
    residual: float = Field(
        default=0.0,
        description="ln(measured / predicted), if step constants were fitted to this run.",
    )

    def doublings_from(self, other: KnownRun) -> tuple[float, float, float]:
        """Return the distance of two runs in doublings of nodes, GPUs per node and batch."""
        return (
            abs(math.log2(self.nodes / other.nodes)),
            abs(math.log2(self.gpus_per_node / other.gpus_per_node)),
            abs(math.log2(self.batch / other.batch)),
        )


def show_network(runs: Iterable[KnownRun]) -> bool:
    """Return whether any of ``runs`` used several nodes, so that they show the network."""
    return any(run.nodes > 1 for run in runs)


class StepConstants(Config):
    """How a cluster's steps differ from its description, as fitted by `dpsim calibrate`.

    The defaults change nothing.
    """

    compute: PositiveFloat = Field(
        1.0, le=1e3, description="GPU compute time, relative to the prediction."
    )
    host: NonNegativeFloat = Field(
        0.0,
        le=1e3,
        description="Host seconds per pass (loader, script), concurrent with the GPU.",
    )
    host_crowding: NonNegativeFloat = Field(
        0.0,
        le=1e2,
        description="Relative increase of the host's time per additional GPU of a node.",
    )
    crowding: NonNegativeFloat = Field(
        0.0, le=1e2, description="Relative increase of compute time per additional GPU of a node."
    )
    inside: PositiveFloat = Field(
        1.0,
        le=1e4,
        description="Time of a collective's bytes inside a node, relative to the prediction.",
    )
    between: PositiveFloat = Field(
        1.0,
        le=1e4,
        description=(
            "Time of a collective's bytes between nodes, relative to the prediction; 5 means "
            "a fifth of the rate."
        ),
    )
    two_nodes: PositiveFloat = Field(
        1.0, le=1e2, description="Additional factor on ``between`` for exactly two nodes."
    )
    decay: NonNegativeFloat = Field(
        0.0,
        le=2.0,
        description="Exponent of the growth of ``between`` with the number of nodes beyond two.",
    )
    overlap: float = Field(
        1.0,
        ge=0,
        le=1,
        description="Share of overlapped communication time during which computing continues.",
    )


class CalibrationProfile(Config):
    """Parameters of one kind of model, fitted on one machine."""

    schema_version: Literal[1] = 1
    name: str = Field(min_length=1, description="Name of the profile in predictions that use it.")
    kind: str = Field(description="Model that the parameters belong to, such as nccl-tests.")
    formula: str = Field(
        default="", description="Formula of the model, in terms of its parameters."
    )
    parameters: dict[str, Parameter] = Field(
        default={}, description="Fitted parameters by name; empty if only layers were measured."
    )
    compute: tuple[MeasuredModel, ...] = Field(
        default=(), description="Layer times of the models that were measured."
    )
    measured: Measured | None = Field(
        default=None, description="Table of one operation over sizes, used for the fit."
    )
    network: tuple[Measured, ...] = Field(
        default=(),
        description=(
            "Tables of collectives to refit the library model's constants for this machine."
        ),
    )
    constants: dict[str, _Constant] = Field(
        default={},
        description=(
            "Compute constants measured on this device, such as memory (achieved share of its "
            "bandwidth) or product_half (share of peak for large half-precision products); others "
            "keep their defaults."
        ),
    )
    compute_scale: Annotated[float, Field(ge=1e-6, le=1e6)] | None = Field(
        default=None, description="Factor on computed compute times, if any."
    )
    step: StepConstants | None = Field(
        default=None,
        description="Corrections of this cluster's steps relative to its description.",
    )
    step_intervals: dict[str, Parameter] = Field(
        default={},
        description="90 % posterior intervals of the constants of ``step``, for the record.",
    )
    known: tuple[KnownRun, ...] = Field(
        default=(), description="The runs that ``step`` was fitted to."
    )
    spreads: tuple[RankSpread, ...] = Field(
        default=(),
        description=(
            "Spread of compute times between concurrent ranks, by number of ranks; the slowest "
            "rank ends a step."
        ),
    )
    beside: _FittedSeconds | None = Field(
        default=None,
        description=(
            "Compute seconds lost per byte of overlapped communication; an all-reduce counts each "
            "byte twice."
        ),
    )
    gpu: str = Field(default="", description="Catalogue name of the measured GPU.")
    residuals: Residuals
    residuals_by: dict[str, Residuals] = Field(
        default={},
        description="Residuals of other groups of rows, by group; ``residuals`` has one of them.",
    )
    runs: dict[str, NonNegativeInt] = Field(
        default={}, description="Number of measured cases from each run file, for the record."
    )
    provenance: dict[str, str] = Field(
        default={},
        description="Versions, dates and files, which differ from run to run; for the record.",
    )

    @model_validator(mode="after")
    def _is_not_empty(self) -> CalibrationProfile:
        parts = (self.parameters, self.compute, self.tables, self.constants)
        if not any(parts) and self.compute_scale is None and self.step is None:
            raise ValueError(
                "parameters must have at least 1 entry where compute has none, but got none"
            )
        return self

    @property
    def residuals_of(self) -> str:
        """The rows that `residuals` are about: "all-reduce by gloo", messages, layers."""
        for what, each in self.residuals_by.items():
            if each == self.residuals:
                return what
        if self.kind == STEPS:
            return "steps"
        return "messages" if self.parameters else "layers"

    def to_json(self) -> str:
        """Return the text of the profile's file."""
        return self.model_dump_json(indent=2) + "\n"

    def transport(self) -> Transport:
        """Return its parameters as those of a transport.

        Raises ValueError if it is of another kind, or its parameters are not a transport's. The
        parameters of an nccl-tests log belong to its table, not to a transport.
        """
        if self.kind == NCCL_TESTS:
            return Transport()
        if self.kind not in (TRANSPORT, COMPUTE, NODE, STEPS):
            raise ValueError(
                f"calibration must be a profile of kind {TRANSPORT} (dpsim validate calibrate), "
                f"{NODE} (dpsim validate node) or {NCCL_TESTS}, but {self.name!r} is of kind "
                f"{self.kind}"
            )
        # First, for an error in a profile's terms: the model's error would mention fields.
        unknown = [name for name in self.parameters if name not in Transport.model_fields]
        if unknown:
            raise ValueError(
                f"parameters of a transport must be among {', '.join(Transport.model_fields)}, "
                f"but got {unknown[0]}"
            )
        values = {name: parameter.value for name, parameter in self.parameters.items()}
        try:
            return Transport.model_validate(values)
        except ValidationError as error:
            name, rule, given = first_problem(error)
            raise ValueError(f"{name} of {self.name!r}: {rule}, but got {given}") from None

    @property
    def measured_transport(self) -> Transport | None:
        """The measured transport of messages, if any; raises ValueError as `transport` does."""
        if not self.parameters:
            return None
        found = self.transport()
        return None if found == Transport() else found

    @property
    def tables(self) -> tuple[Measured, ...]:
        """All measured collectives: of a node, or of an nccl-tests log."""
        return self.network if self.measured is None else (*self.network, self.measured)

    def layer_times(
        self,
        layers: Sequence[str],
        precision: str | None = None,
        tokens: int | None = None,
        software: Mapping[str, str] | None = None,
    ) -> MeasuredModel | None:
        """Return the measured model with layers of these names, in ``precision``, if any.

        Passes must match ``software``; the kernels of the update need not.
        """
        for model in self.compute:
            # A property that a profile leaves out matches any value.
            same_work = model.precision in (None, precision) and model.tokens in (None, tokens)
            same_software = all(
                model.software.get(word, value) == value
                for word, value in (software or {}).items()
                if word != "optimizer_kernels"
            )
            if same_work and same_software and model.layers == tuple(layers):
                return model
        return None

    def spread_of(self, ranks: int) -> RankSpread | None:
        """Return the measurement with the number of ranks nearest to ``ranks``, as a ratio."""
        # As a ratio, twice as many ranks are as far away as half as many.
        apart = {abs(math.log(each.ranks / ranks)): each for each in self.spreads}
        return apart[min(apart)] if apart else None

    def cautions(self, gpus: Sequence[str], library: str) -> list[str]:
        """Return the cautions of its use for ``gpus`` and ``library``, a sentence each."""
        found = []
        # A profile without a GPU's name gives no warning.
        others = [gpu for gpu in gpus if self.gpu and gpu != self.gpu]
        if others:
            found.append(
                f"calibration {self.name!r} was measured on {self.gpu}, and is used for "
                f"{', '.join(others)}"
            )
        backends = {table.backend for table in self.tables}
        # Ideal transfers use no library's tables.
        if backends and library not in (*backends, "ideal"):
            found.append(
                f"calibration {self.name!r} has collectives by {', '.join(sorted(backends))}, and "
                f"none by {library}: those are as the catalogue has them"
            )
        return found


def load_profile(path: str | os.PathLike[str]) -> CalibrationProfile:
    """Return the profile in the file at ``path``.

    Raises DpsimError if there is no file, or it is not a profile.
    """
    try:
        return CalibrationProfile.model_validate_json(read_limited(path, _MOST_BYTES))
    except ValidationError as error:
        raise DpsimError(f"{path}: {first_problem(error)}") from None


def shipped_profiles() -> dict[str, Path]:
    """Return the files of the profiles that come with the program, by name."""
    folder = Path(str(files("validate") / "profiles"))
    return {path.stem: path for path in sorted(folder.glob("*.json"))}


def _resolve(value: object, info: ValidationInfo) -> Any:
    """Return the profile that a text names.

    One that comes with the program, or a file beside the scenario.
    """
    if not isinstance(value, str):
        return value
    if value.endswith(".json"):
        return load_profile(Path((info.context or {}).get("folder", "")) / value)
    shipped = shipped_profiles()
    if value not in shipped:
        known = suggestion(value, [*shipped, "catalogue"])
        raise ValueError(
            f"must be the path of a profile, such as profile.json, or a profile's name{known}, "
            f"but got {value!r}"
        )
    return load_profile(shipped[value])


# A field that accepts a profile's name, its path (beside the scenario), or its content, and holds
# the profile.
ProfileRef = Annotated[
    CalibrationProfile, BeforeValidator(_resolve, json_schema_input_type=str | CalibrationProfile)
]
