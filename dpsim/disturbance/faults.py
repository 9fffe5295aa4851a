"""Faults by cause: rates, the workers that fail together, and repair times."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from importlib.resources import files
from typing import Annotated, Literal

from pydantic import Field, PositiveFloat, PositiveInt

from dpsim.base.config import Config, FilePath
from dpsim.base.shipped import shipped_yaml
from dpsim.base.units import PositiveSeconds, Seconds
from dpsim.disturbance.groups import node_of

HOUR = 3600.0

FaultTable = Literal["llama3", "gpu-servers"]  # the tables of faults.yaml
PerNode = int | Sequence[int]  # workers of each node, or of node 0, 1, ...


@dataclass(frozen=True, slots=True)
class Cause:
    """Faults of one cause in a job: ``rate`` times per second, units of ``workers`` workers fail.

    A first fault hits a geometric number of units at once, ``together`` on average. A repair takes
    ``repair_time`` seconds on average; its logarithm has the standard deviation ``repair_spread``.
    A fraction ``relapse`` of the repaired units fails again, alone, ``relapse_time`` seconds later
    on average; the rate includes these. After a fault that ``leaves_copies`` the job restarts from
    the copies in neighbours' memory.
    """

    name: str
    rate: float
    workers: float
    repair_time: float
    repair_spread: float = 0.0
    planned: bool = False
    relapse: float = 0.0
    relapse_time: float = 0.0
    leaves_copies: bool = False
    together: float = 1.0

    @property
    def first_rate(self) -> float:
        """First faults per second; each failed unit has 1 / (1 - relapse) faults in all."""
        first = (1 - self.relapse) / self.together
        return self.rate * first / (first + self.relapse)

    @property
    def taken(self) -> tuple[float, float]:
        """Mean and mean square of the number of workers that a fault takes away."""
        first = self.first_rate / self.rate if self.rate else 1.0
        # The second moment of a geometric number of mean m is m (2 m - 1).
        mean = first * self.together + 1 - first
        square = first * self.together * (2 * self.together - 1) + 1 - first
        return mean * self.workers, square * self.workers**2


class FaultConfig(Config):
    """Faults of one cause: their rate, the workers that fail together, and the duration."""

    name: str = Field(default="fault", min_length=1, description="Name of the cause in results.")
    mtbf: PositiveSeconds = Field(
        default=50_000 * HOUR,
        description="Mean time between such faults of one worker, node or rack, or of the job.",
    )
    per: Literal["worker", "node", "rack", "job"] = Field(
        default="worker",
        description="The unit that fails as a whole; a fault of the job removes no worker.",
    )
    together: Annotated[float, Field(ge=1, le=1000)] = Field(
        default=1.0,
        description=(
            "Mean number of workers, nodes or racks that fail at the same moment (geometric "
            "distribution); each of them counts in mtbf. Relapses are single."
        ),
    )
    nodes_per_rack: PositiveInt = Field(
        default=4,
        description="Nodes per rack, which share a switch or power; used if racks fail.",
    )
    repair_time: Seconds = Field(
        default=0.0, description="Mean time until the failed unit becomes a spare."
    )
    repair_spread: Annotated[float, Field(ge=0, le=3)] = Field(
        default=0.0,
        description="Standard deviation of the repair time's logarithm; 0: all repairs are equal.",
    )
    relapse: Annotated[float, Field(ge=0, le=0.95)] = Field(
        default=0.0,
        description=(
            "Probability that a repaired unit soon fails again because the cause was not found. "
            "Such faults count in mtbf."
        ),
    )
    relapse_time: Seconds = Field(
        default=2 * 24 * HOUR, description="Mean time from a repair until the relapse."
    )
    planned: bool = Field(
        default=False,
        description="Announced in time: the job writes a checkpoint first and loses no work.",
    )

    def cause(self, workers: int, per_node: PerNode) -> Cause:
        """Return the faults of this cause in a job on ``workers`` workers."""
        units = self._units(workers, per_node)
        # The mean, since the last node or rack may be partly filled.
        taken = 0.0 if self.per == "job" else workers / units
        # A first fault interrupts the job once for ``together`` units, and each relapse once.
        interruptions = (1 - self.relapse) / self.together + self.relapse
        return Cause(
            self.name,
            units / self.mtbf * interruptions,
            taken,
            self.repair_time,
            self.repair_spread,
            self.planned,
            self.relapse,
            self.relapse_time,
            together=self.together,
        )

    def _units(self, workers: int, per_node: PerNode) -> int:
        """Return the number of units of the job that may fail."""
        if self.per == "worker":
            return workers
        if self.per == "job":
            return 1
        nodes = int(node_of(workers, per_node).max()) + 1
        return nodes if self.per == "node" else -(-nodes // self.nodes_per_rack)


class FaultTraceConfig(Config):
    """Logged faults of servers like those of the scenario, by kind."""

    trace: FilePath = Field(
        description=(
            "A CSV file of faults, relative to the scenario: node, start_day, end_day (one of the "
            "two may be empty) and perhaps kind."
        )
    )
    servers: PositiveInt | None = Field(
        default=None,
        description="Number of observed servers, also without faults; the file's if left out.",
    )
    days: PositiveFloat | None = Field(
        default=None,
        description="Observed days from day 0; until the last fault if left out.",
    )

    def faults(self) -> tuple[FaultConfig, ...]:
        """Return the faults of each kind in the file. Raises DpsimError if it is invalid."""
        from dpsim.disturbance.fault_trace import read_faults

        found = read_faults(self.trace, self.servers, self.days)
        return tuple(map(FaultConfig.model_validate, found))


WhichFaults = (
    Annotated[tuple[FaultConfig, ...], Field(min_length=1)] | FaultTable | FaultTraceConfig
)


def listed_faults(which: WhichFaults) -> tuple[FaultConfig, ...]:
    """Return the faults themselves; a table or a trace is read."""
    if isinstance(which, str):
        return known_faults(which)
    return which.faults() if isinstance(which, FaultTraceConfig) else which


def known_faults(name: FaultTable) -> tuple[FaultConfig, ...]:
    """Return the faults of a table of faults.yaml."""
    tables = shipped_yaml(files("dpsim.disturbance") / "faults.yaml")
    return tuple(FaultConfig.model_validate(row) for row in tables[name]["faults"])
