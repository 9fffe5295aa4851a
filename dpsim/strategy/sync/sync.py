"""The base of all kinds of synchronisation."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Literal

from dpsim.base.kinds import KindConfig
from dpsim.strategy.sync.gate import BarrierGate, Gate
from dpsim.topology import Mesh

if TYPE_CHECKING:
    from dpsim.base.arrays import RealArray
    from dpsim.strategy.sync.outer_step import OuterConfig

Exchanged = Literal["gradients", "models", "nothing"]


class Sync(KindConfig):
    """When workers synchronise. The defaults are for bulk-synchronous steps.

    Class variables hold the properties of a kind. If one depends on its fields, the kind defines a
    Python property of the same name.
    """

    waits: ClassVar[bool] = True
    """Whether a worker ever waits for another."""
    one_version: ClassVar[bool] = True
    """Whether workers share one sequence of parameters; if not, each has its own model."""
    central_model: ClassVar[bool] = False
    """Whether an exchange of models corrects workers towards a model that none of them trains."""
    first_own_step: ClassVar[int] = 0
    """The first step under this kind's rule; the steps before are BSP."""
    lag: ClassVar[int] = 0
    """How many further steps a worker may begin before a step's communication has ended."""
    has_groups: ClassVar[bool] = False
    """Whether workers exchange only within their group, from ``first_own_step`` on."""
    outer_step: ClassVar[OuterConfig | None] = None
    """The outer step between groups of workers; None without two levels."""
    barrier: ClassVar[bool] = True
    """Whether all workers end each step together; true unless the kind has its own gate."""
    difference: ClassVar[str] = ""
    """How its updates differ from synchronous training; "" if they do not."""

    @classmethod
    def __pydantic_init_subclass__(cls, **arguments: Any) -> None:
        """Derive the properties of a kind that follow from its gate and its models."""
        super().__pydantic_init_subclass__(**arguments)
        cls.barrier = cls.gate is Sync.gate
        # A kind may state a better description.
        if "difference" not in vars(cls):
            late = "" if cls.barrier else "gradients are late or dropped"
            cls.difference = late if cls.one_version else "models differ"

    def gate(self, workers: int) -> Gate:
        """Return the rule by which ``workers`` workers wait for one another, at the start of a run.

        Raises DpsimError if the rule is impossible with that many workers.
        """
        return BarrierGate(workers, lag=self.lag)

    @property
    def in_step(self) -> bool:
        """Whether workers exchange gradients in each step, and so hold the same model."""
        return self.barrier and self.one_version

    def exchanges(self, step: int, period: int) -> Exchanged:
        """Return the payload that the workers exchange in step ``step`` (from 0).

        Models are averaged every ``period`` steps.
        """
        return "gradients"

    def period(self, samples_per_step: int, epoch: int | None) -> int:
        """Return the steps between two averagings of models.

        ``epoch``: the steps of an epoch, if the data set is known.
        """
        return 1

    def group_size(self, mesh: Mesh) -> int:
        """Return how many workers exchange with one another in a step that is `grouped`."""
        return mesh.ranks

    def grouped(self, step: int) -> bool:
        """Return whether workers exchange in ``step`` only inside their group."""
        return self.has_groups and step >= self.first_own_step

    def fragments(self, step: int, period: int) -> tuple[int, ...]:
        """Return the parts of the model that groups exchange after ``step``."""
        return ()

    def corrections(self, models: RealArray, central: RealArray) -> RealArray:
        """Return the corrections of ``models`` (learners, P) towards ``central`` (P,).

        Used by `dpsim converge` for kinds with a central model. By default the corrections add up
        to the difference between the learners' mean and the central model.
        """
        return (models - central) / len(models)

    def moved(self, central: RealArray, before: RealArray, total: RealArray) -> RealArray:
        """Return the next central model (P,), given ``total``, the sum of all corrections.

        ``before`` is the value of ``central`` before its last move.
        """
        return central + total
