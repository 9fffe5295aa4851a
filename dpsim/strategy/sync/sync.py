"""What every way to synchronise says of itself."""

from __future__ import annotations

from typing import Literal

from dpsim.base.config import Config
from dpsim.strategy.sync.gate import BarrierGate, Gate

Exchanged = Literal["gradients", "models", "nothing"]


class Sync(Config):
    """When workers meet. The defaults are those of bulk-synchronous steps."""

    def gate(self, workers: int) -> Gate:
        """The rule by which ``workers`` workers wait for one another, at the start of a run.

        Raises DpsimError where it cannot be kept by so many.
        """
        return BarrierGate(workers, lag=self.lag)

    @property
    def barrier(self) -> bool:
        """Whether all workers end each step together: so for a kind without a gate of its own."""
        return type(self).gate is Sync.gate

    @property
    def waits(self) -> bool:
        """Whether a worker ever waits for another."""
        return True

    @property
    def lag(self) -> int:
        """Steps that a worker may begin before what it communicated in a step has arrived."""
        return 0

    def exchanges(self, step: int, period: int) -> Exchanged:
        """What the workers exchange in step ``step`` (from 0).

        Models are averaged every ``period`` steps.
        """
        return "gradients"

    def period(self, samples_per_step: int, epoch: int | None) -> int:
        """Steps between two averagings of models.

        ``epoch`` is the steps of one, where the data set is known.
        """
        return 1

    @property
    def central_model(self) -> bool:
        """Whether workers are corrected towards a model that none of them trains."""
        return False

    @property
    def difference(self) -> str:
        """How its updates differ from those of plain synchronous training; "" where they do not."""
        if not self.one_version:
            return "models differ"
        return "" if self.barrier else "gradients are late or dropped"

    @property
    def one_version(self) -> bool:
        """Whether workers share one sequence of parameters.

        Otherwise they have models of their own, which are averaged.
        """
        return True
