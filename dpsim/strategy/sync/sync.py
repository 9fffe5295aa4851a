"""What every way to synchronise says of itself.

What meets after which step, and who waits for whom.
"""

from __future__ import annotations

from typing import Literal

from dpsim.base.config import Config

Exchanged = Literal["gradients", "models", "nothing"]


class Sync(Config):
    """When workers meet. The defaults are those of bulk-synchronous steps.

    ``lag``: a worker may begin as many steps before what it communicated in a step has arrived.
    """

    @property
    def lag(self) -> int:
        """Steps that a worker may run ahead of what it communicates."""
        return 0

    def quorum(self, workers: int) -> int:
        """How many workers must be there for a collective to begin; the others take part with what
        they have.
        """
        return workers

    def exchanges(self, step: int, period: int) -> Exchanged:
        """What the workers exchange in step ``step`` (from 0), where models are averaged every
        ``period`` steps.
        """
        return "gradients"

    def period(self, samples_per_step: int, epoch: int | None) -> int:
        """Steps between two averagings of models; ``epoch`` is the steps of one, where the data set
        is known.
        """
        return 1

    @property
    def one_version(self) -> bool:
        """Whether workers share one sequence of parameters, instead of models of their own that are
        averaged.
        """
        return True

    @property
    def drops(self) -> bool:
        """Whether a gradient that comes after the quorum is lost instead of being used later."""
        return False
