"""Calibrations that scale the catalogue's compute times to a measured step, or by a factor."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated

from pydantic import Field, PositiveInt

from dpsim.base.config import Config
from dpsim.base.units import TIME, PositiveSeconds, human, plural
from dpsim.hardware import KnownRun

if TYPE_CHECKING:
    from dpsim.topology import ClusterConfig

# fit(nodes, seconds) returns the factor with which a step on that many nodes takes that long.
Fit = Callable[[int, float], float]


class ScaledCompute(Config):
    """A calibration that scales the catalogue's compute times.

    Each kind defines the factor.
    """

    @abstractmethod
    def factor(self, computed: float, fit: Fit) -> float:
        """Return the factor on compute times.

        ``computed`` is how long the slowest kind of GPU computes in a step, by the catalogue (s).
        Raises DpsimError if ``fit`` finds no factor.
        """

    @property
    def fitted_to(self) -> str | None:
        """The source of the measured step that the factor is fitted to; None for a given factor."""
        return None

    @abstractmethod
    def measured_runs(self, cluster: ClusterConfig, batch: int) -> tuple[KnownRun, ...]:
        """Return the measured runs behind the factor, for that cluster and batch."""

    @property
    @abstractmethod
    def description(self) -> str:
        """A description of its effect on compute times, as a sentence without its first capital."""


class MeasuredStep(ScaledCompute):
    """A measured step of this scenario on fewer nodes.

    Compute times are scaled until the prediction there equals it.
    """

    nodes: PositiveInt = Field(
        default=1, description="Number of nodes on which the step was measured."
    )
    step_time: PositiveSeconds = Field(description="Mean step time on those nodes.")
    source: str = Field(min_length=1, description="Source of the measurement.")

    def factor(self, computed: float, fit: Fit) -> float:
        """Return the factor for which a simulated step takes as long as the measured one."""
        return fit(self.nodes, self.step_time)

    @property
    def fitted_to(self) -> str:
        """The source of the step."""
        return self.source

    def measured_runs(self, cluster: ClusterConfig, batch: int) -> tuple[KnownRun, ...]:
        """Return the measured step, of the same batch on full nodes."""
        return (KnownRun(nodes=self.nodes, gpus_per_node=fullest(cluster), batch=batch),)

    @property
    def description(self) -> str:
        """A sentence on the measured nodes, and the predicted ones."""
        return (
            f"compute times are scaled to a measured step, {human(self.step_time, TIME)} on "
            f"{plural(self.nodes, 'node')} ({self.source}). "
            "There the error is 0 by construction; other nodes, networks and strategies are "
            "predicted."
        )


class MeasuredCell(ScaledCompute):
    """Workers are cells of several GPUs that split a model among them, each a replica.

    The work inside a cell (such as tensor or pipeline parallelism) is measured, not simulated.
    """

    cell: Annotated[int, Field(ge=2, le=2**20)] = Field(
        description=(
            "GPUs per cell, in rank order: a part of a node, or whole nodes. Each GPU holds an "
            "equal part of the model and exchanges its gradients with the corresponding GPUs of "
            "other cells."
        )
    )
    step_time: PositiveSeconds = Field(
        description=(
            "Mean step time of one cell on its own, all passes and the update included; a pass "
            "has cell x batch_per_gpu samples."
        )
    )
    source: str = Field(min_length=1, description="Source of the measurement.")

    def factor(self, computed: float, fit: Fit) -> float:
        """Return the measured step over the computed one: a single cell exchanges no gradients."""
        # GPUs that split a model run at the pace of the slowest kind, which the measurement
        # includes.
        return self.step_time / computed

    @property
    def fitted_to(self) -> str:
        """The source of the cell's step."""
        return self.source

    def measured_runs(self, cluster: ClusterConfig, batch: int) -> tuple[KnownRun, ...]:
        """Return the step of a cell, of the same batch."""
        inside = min(self.cell, fullest(cluster))
        return (KnownRun(nodes=self.cell // inside, gpus_per_node=inside, batch=batch),)

    @property
    def description(self) -> str:
        """A sentence on the measured and the predicted part."""
        return (
            f"cells of {self.cell} GPUs take the measured {human(self.step_time, TIME)} "
            f"({self.source}); their communication is predicted."
        )


class ComputeScale(ScaledCompute):
    """Computed times multiplied by a known factor."""

    compute_scale: Annotated[float, Field(ge=1e-6, le=1e6)] = Field(
        description="Factor on all compute times."
    )
    cell: Annotated[int, Field(ge=1, le=2**20)] = Field(
        default=1, description="GPUs per cell; a cell splits one model among its GPUs."
    )
    source: str = Field(min_length=1, description="Source of the factor.")
    known: tuple[KnownRun, ...] = Field(
        default=(),
        description=(
            "Measured runs behind the factor; the stated error grows with the distance from them."
        ),
    )

    def factor(self, computed: float, fit: Fit) -> float:
        """Return the given factor."""
        return self.compute_scale

    def measured_runs(self, cluster: ClusterConfig, batch: int) -> tuple[KnownRun, ...]:
        """Return the given runs."""
        return self.known

    @property
    def description(self) -> str:
        """The factor and its source, as a sentence."""
        return f"compute times are the catalogue's times {self.compute_scale:g} ({self.source})."


def fullest(cluster: ClusterConfig) -> int:
    """Return the GPUs in use of the fullest node."""
    return max(part.gpus for part in cluster.parts)
