"""Synchronous model averaging: learners are corrected towards a central model after each step.

c_i = a (w_i - z), w_i -= g_i + c_i, z += sum of c_i + mu (z - z before). Models are averaged inside
each GPU first (its learners share its memory), then between GPUs; the averaging between GPUs
overlaps with the next step, which does not wait for it. Source: Koliousis et al., "Crossbow:
Scaling deep learning with small batch sizes on multi-GPU servers", VLDB 12, 2019.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, ClassVar, Literal

from pydantic import Field

from dpsim.strategy.sync.sync import Exchanged, Sync

if TYPE_CHECKING:
    from dpsim.base.arrays import RealArray


class SmaConfig(Sync):
    """Learners are corrected towards a central average model."""

    label: ClassVar[str] = "SMA"
    one_version: ClassVar[bool] = False
    central_model: ClassVar[bool] = True
    lag: ClassVar[int] = 1  # the averaging overlaps with the next step

    kind: Literal["sma"] = Field(
        description="Learners are corrected towards a central average model."
    )
    correction: Annotated[float, Field(gt=0, le=1)] | None = Field(
        default=None,
        description=(
            "a: share of its distance from the average by which a learner is corrected; 1 / "
            "learners if left out."
        ),
    )
    momentum: Annotated[float, Field(ge=0, lt=1)] = Field(
        default=0.9, description="mu: momentum of the average model."
    )

    def exchanges(self, step: int, period: int) -> Exchanged:
        """Return models, after every step."""
        return "models"

    def corrections(self, models: RealArray, central: RealArray) -> RealArray:
        """Return a (w_i - z) for each learner."""
        return (self.correction or 1 / len(models)) * (models - central)

    def moved(self, central: RealArray, before: RealArray, total: RealArray) -> RealArray:
        """Return z + sum of c_i + mu (z - z before)."""
        return central + total + self.momentum * (central - before)
