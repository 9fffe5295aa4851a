"""The words of a scenario's software, every one of them said."""

from __future__ import annotations

from dataclasses import dataclass

from dpsim.workload import WorkloadConfig


@dataclass(frozen=True, slots=True)
class Said:
    """As `validate.microbench.Words`."""

    memory_format: str
    execution: str
    optimizer_kernels: str


def words_of(workload: WorkloadConfig) -> Said:
    """Those of ``workload``."""
    return Said("channels_first", workload.execution, "foreach")
