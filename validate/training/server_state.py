"""The state of a parameter server: weights, and the gate by which workers read and add to them.

The gate is the simulator's own (`dpsim.strategy.sync.Gate`), so that a run here and a prediction
follow the same rule. A change is added to the weights at once if each is an update, else with all
others of its update, in order of arrival; late changes are dropped. The weights for a worker's next
iteration are copied when it may continue: all workers that wait for the same update read the same
weights.
"""

from __future__ import annotations

from collections.abc import Callable

from torch import Tensor

from dpsim.strategy.sync import Gate, GradientOutcome
from validate.ranks.gatekeeper import Gatekeeper

READ, PUSHED, UPDATED, DROPPED = "read", "pushed", "updated", "dropped"
Note = Callable[[str, int, int, int], None]


class ServerState:
    """Weights that ``workers`` workers read and add to; called from a thread per worker.

    ``scale`` multiplies each change. ``is_over(clock, version)`` returns whether a worker that has
    done ``clock`` iterations begins none on that version. A wait of more than ``patience_s`` raises
    TimeoutError.
    """

    def __init__(
        self,
        weights: Tensor,
        workers: int,
        gate: Gate,
        note: Note,
        is_over: Callable[[int, int], bool],
        scale: float = 1.0,
        patience_s: float = 60.0,
    ) -> None:
        self.weights = weights
        self.patience_s = patience_s
        self._scale = scale
        self._note = note
        self._is_over = is_over
        self._gate = gate
        self._held: list[tuple[int, int, Tensor]] = []
        self._newest = (0, weights.clone())
        self._readable: dict[int, tuple[int, Tensor]] = {}
        self._keeper = Gatekeeper(gate, self._goes_on)
        # The first weights are read without handing over a gradient first.
        for worker in range(workers):
            self._goes_on(worker, 0, 0)

    def read(self, worker: int) -> tuple[int, Tensor]:
        """Wait until the worker may continue; return its version and weights."""
        self._keeper.wait(worker, self.patience_s)
        return self._readable[worker]

    def push(self, worker: int, vector: Tensor) -> None:
        """End the worker's iteration, and add ``vector`` if it still counts."""

        # Called while the gate is locked: no thread may push or read between the gate's decision to
        # update and the updated weights.
        def count(outcome: GradientOutcome) -> None:
            self._count(worker, self._gate.clocks[worker] - 1, vector, outcome)

        self._keeper.hand_over(worker, count)

    def _count(self, worker: int, clock: int, vector: Tensor, outcome: GradientOutcome) -> None:
        # The gate has decided already: the gradient that completes an update has advanced it.
        committed = self._gate.version
        before = committed - 1 if outcome is GradientOutcome.APPLIED else committed
        self._note(PUSHED, worker, clock, before)
        if outcome is GradientOutcome.DROPPED:
            self._note(DROPPED, worker, clock, before)
            return
        self._held.append((worker, clock, vector))
        if outcome is GradientOutcome.HELD:
            return
        for each, iteration, change in self._held:
            self.weights.add_(change, alpha=self._scale)
            self._note(UPDATED, each, iteration, committed)
        self._held = []

    def _goes_on(self, worker: int, staleness: int, version: int) -> None:
        """Keep the weights that a worker reads; readers of one version share one read-only copy."""
        if self._newest[0] != version:
            self._newest = version, self.weights.clone()
        self._readable[worker] = self._newest
        clock = self._gate.clocks[worker]
        if not self._is_over(clock, version):
            self._note(READ, worker, clock, version)
