"""Corrections of a cluster's steps, and the measured runs that they were fitted to."""

from __future__ import annotations

import math
from collections.abc import Iterable

from pydantic import Field, NonNegativeFloat, PositiveFloat, PositiveInt

from dpsim.base.config import Config


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
        """Return the distances of two runs in doublings of nodes, GPUs per node and batch."""
        return (
            abs(math.log2(self.nodes / other.nodes)),
            abs(math.log2(self.gpus_per_node / other.gpus_per_node)),
            abs(math.log2(self.batch / other.batch)),
        )


def any_multi_node(runs: Iterable[KnownRun]) -> bool:
    """Return whether any of the ``runs`` used several nodes."""
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
