"""The result of a run of microbenchmarks, which is a JSON file."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
from pydantic import Field, NonNegativeInt

from dpsim.base.arrays import FloatArray
from dpsim.base.config import Config
from validate.microbench.settings import Settings


class RankPlace(Config):
    """Where one rank ran."""

    rank: NonNegativeInt
    host: str
    pid: NonNegativeInt
    device: str = Field(description="cpu, or cuda:0 and so on.")
    device_name: str = Field(description="The name of the processor or GPU.")


class RunFile(Config):
    """Rows of measurements, with the machine and the settings that they were made with.

    Times are seconds, sizes bytes.
    """

    schema_version: Literal[1] = 1
    kind: Literal["microbench"] = "microbench"
    what: tuple[str, ...] = Field(description="Requested benchmarks.")
    settings: Settings
    backend: str = Field(description="Backend of torch.distributed.")
    ranks: tuple[RankPlace, ...] = Field(description="Place of every rank.")
    machine: dict[str, Any] = Field(description="The machine of rank 0.")
    rows: tuple[dict[str, Any], ...] = Field(
        description="Measurements in order; ``what`` names the benchmark of each."
    )
    not_run: dict[str, str] = Field(
        default={}, description="Benchmarks that could not run here, and why."
    )
    failed: str | None = Field(
        default=None,
        description="Error that ended the run early, if any; the rows before it are kept.",
    )
    provenance: dict[str, str] = Field(default={}, description="Versions and the date.")

    def of(self, what: str) -> list[dict[str, Any]]:
        """Return the rows of one benchmark."""
        return [row for row in self.rows if row["what"] == what]

    def to_json(self) -> str:
        """Return the text of its file."""
        return self.model_dump_json(indent=1) + "\n"


def of_layers(
    shares: FloatArray | Sequence[Sequence[float]], passes: FloatArray | Sequence[float]
) -> FloatArray:
    """Return the seconds of each layer: its median share of the median pass.

    ``shares`` has a row per repetition, a number per layer.
    """
    # Medians of shares do not add up to 1, so they are scaled: layers must add up to the pass.
    median = np.median(shares, axis=0)
    return np.asarray(median / median.sum() * np.median(passes))
