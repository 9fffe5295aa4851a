"""Calibration profiles: parameters fitted to measurements, with their errors and the data."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping, Sequence
from importlib.resources import files
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import (
    BeforeValidator,
    Field,
    NonNegativeInt,
    ValidationError,
    ValidationInfo,
    model_validator,
)

from dpsim.base.config import Config, first_problem
from dpsim.base.errors import DpsimError, suggestion
from dpsim.base.files import read_limited
from dpsim.hardware.measured import (
    Constant,
    FittedSeconds,
    Measured,
    MeasuredModel,
    Parameter,
    RankSpread,
    Residuals,
)
from dpsim.hardware.step_constants import KnownRun, StepConstants
from dpsim.hardware.transport import Transport

COMPUTE = "compute"
_MOST_BYTES = 64 * 2**20
TRANSPORT = "transport"
NCCL_TESTS = "nccl-tests"
NODE = "node"
STEPS = "steps"


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
        description="Tables of collectives to refit the library model's constants.",
    )
    constants: dict[str, Constant] = Field(
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
        description="Spread of compute times between concurrent ranks, by number of ranks.",
    )
    beside: FittedSeconds | None = Field(
        default=None,
        description="Compute time lost per byte of overlapped communication (all-reduce: twice).",
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
    def _check_not_empty(self) -> CalibrationProfile:
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
        """Return the profile's parameters as a transport.

        An nccl-tests profile gives the defaults, because its parameters describe its table. Raises
        ValueError if the profile is of another kind, or its parameters are not a transport's.
        """
        if self.kind == NCCL_TESTS:
            return Transport()
        if self.kind not in (TRANSPORT, COMPUTE, NODE, STEPS):
            raise ValueError(
                f"calibration must be a profile of kind {TRANSPORT} (dpsim validate calibrate), "
                f"{NODE} (dpsim validate node) or {NCCL_TESTS}, but {self.name!r} is of kind "
                f"{self.kind}"
            )
        # First, because pydantic's error would name fields instead of a profile's parameters.
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
        """The measured transport, if any. Raises ValueError like `transport`."""
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
        """Return the measured model with these layers, precision, tokens and software, or None.

        ``software`` must match except for the optimizer's kernels, which only affect the update.
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
        """Return the measurement whose number of ranks is nearest to ``ranks`` in ratio, if any."""
        by_distance = {abs(math.log(each.ranks / ranks)): each for each in self.spreads}
        return by_distance[min(by_distance)] if by_distance else None

    def cautions(self, gpus: Sequence[str], library: str) -> list[str]:
        """Return a sentence for each reason to doubt its use for ``gpus`` and ``library``."""
        found = []
        other_gpus = [gpu for gpu in gpus if self.gpu and gpu != self.gpu]
        if other_gpus:
            found.append(
                f"calibration {self.name!r} was measured on {self.gpu}, and is used for "
                f"{', '.join(other_gpus)}"
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
    """Return the profile that a text names: a shipped one, or a file relative to the scenario."""
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


# A field that accepts a profile's name, its path (relative to the scenario) or its content.
ProfileRef = Annotated[
    CalibrationProfile, BeforeValidator(_resolve, json_schema_input_type=str | CalibrationProfile)
]
