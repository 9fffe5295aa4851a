"""Parameter servers.

The last ranks are servers, which hold a share of the weights each; the others are workers, which
read the weights and push their changes.

A worker pushes the change that its own SGD makes to the weights it has read, momentum included.
Servers add it, by default divided by the number of workers, so that m workers in step move like one
with the mean of their gradients. A server has a thread for each worker: it waits until
`ServerState` lets that worker read, sends the weights, and receives the worker's change. Source: Li
et al., "Scaling distributed machine learning with the parameter server", OSDI 2014.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar, Literal

import torch
import torch.distributed as dist
from pydantic import Field, NonNegativeInt, PositiveInt
from torch import Tensor

from dpsim.strategy.sync import AspConfig, BspConfig, Gate, GradientOutcome, SspConfig, Sync
from validate.ranks.gatekeeper import Gatekeeper, serve_each
from validate.training.method import Method
from validate.training.rank_record import READ, UPDATED
from validate.training.worker import Worker

PUSHED, DROPPED = "pushed", "dropped"
Note = Callable[[str, int, int, int], None]


class ServerState:
    """Weights that ``workers`` workers read and add to; called from a thread per worker.

    Who may read when is decided by the simulator's own gate (`dpsim.strategy.sync.Gate`), so that a
    run here and a prediction follow the same rule. A change is added to the weights at once if each
    is an update, else with all others of its update, in order of arrival; late changes are dropped.
    The weights for a worker's next iteration are copied when it may continue: all workers that wait
    for the same update read the same weights.

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

        # The gate calls this while locked: no thread may push or read between its decision to
        # update and the updated weights.
        def count(outcome: GradientOutcome) -> None:
            self._count(worker, self._gate.clocks[worker] - 1, vector, outcome)

        self._keeper.hand_over(worker, count)

    def _count(self, worker: int, clock: int, vector: Tensor, outcome: GradientOutcome) -> None:
        # The gate's version already includes the update that this gradient completes.
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


class ParameterServer(Method):
    """Workers read from servers and push to them.

    They do so in step (bsp), at most some clocks apart (ssp), or as they come (asp).
    """

    via_host_memory: ClassVar[bool] = True
    kind: ClassVar[str] = "parameter-server"
    servers: PositiveInt = Field(
        default=1, description="Number of server ranks, each with an equal share of the weights."
    )
    sync: Literal["bsp", "ssp", "asp"] = Field(
        default="bsp", description="Synchronisation model of the workers."
    )
    staleness: NonNegativeInt = Field(
        default=1, description="Number of clocks that workers may be apart under ssp."
    )
    reduction: Literal["mean", "sum"] = Field(
        default="mean", description="Whether a change is scaled by 1 / workers or applied in full."
    )

    def gate(self, workers: int) -> Gate:
        """Return the rule by which workers wait for one another."""
        kinds: dict[str, Sync] = {
            "bsp": BspConfig(kind="bsp"),
            "ssp": SspConfig(kind="ssp", staleness=self.staleness),
            "asp": AspConfig(kind="asp"),
        }
        return kinds[self.sync].gate(workers)

    def workers(self, ranks: int) -> int:
        """Return all ranks but the servers."""
        self._at_least(ranks, self.servers + 1)
        return ranks - self.servers

    def scale(self, workers: int) -> float:
        """Return the factor on a change."""
        return 1.0 / workers if self.reduction == "mean" else 1.0

    def run(self, worker: Worker) -> None:
        """Work or serve; then every server broadcasts its share to all ranks."""
        # Copy even on a CPU, to keep the weights as read while the replica changes.
        weights = worker.replica.weights.to("cpu", copy=True)
        shares = weights.tensor_split(self.servers)
        if worker.rank < worker.workers:
            work(worker, weights, shares)
        else:
            steps = worker.training.steps
            state = ServerState(
                shares[worker.rank - worker.workers],
                worker.workers,
                self.gate(worker.workers),
                worker.note,
                lambda clock, version: clock == steps,
                self.scale(worker.workers),
                worker.world.timeout,
            )
            serve_each(worker.workers, lambda client: serve(worker, state, client))
        for server, share in enumerate(shares):
            dist.broadcast(share, worker.workers + server, worker.host_group)
        worker.replica.weights.copy_(weights)


def work(worker: Worker, weights: Tensor, shares: tuple[Tensor, ...]) -> None:
    """Read, learn and push in each step.

    ``shares`` are the servers' parts of ``weights``, into which they are received.
    """
    arriving = _begun(dist.irecv, worker, shares)
    for step in worker.steps():
        with worker.part("communication"):
            _wait(arriving)
            worker.replica.weights.copy_(weights)
        worker.compute_gradient(step)
        worker.update()
        with worker.part("communication"):
            change = worker.replica.weights.cpu() - weights
            last = step == worker.training.steps - 1
            # Posted before the change is sent, as gloo is slower the other way round. The change is
            # a separate vector, which the receive cannot overwrite.
            arriving = [] if last else _begun(dist.irecv, worker, shares)
            _wait(_begun(dist.isend, worker, change.tensor_split(len(shares))))


def serve(worker: Worker, state: ServerState, client: int) -> None:
    """Serve the worker ``client`` for all its steps."""
    change = torch.empty_like(state.weights)
    for _ in range(worker.training.steps):
        # Posted before the worker gets the weights that it answers with its change.
        pushed = dist.irecv(change, client, worker.host_group)
        _, weights = state.read(client)
        dist.send(weights, client, worker.host_group)
        pushed.wait()
        # Clone the change, since a gate may hold it while the next one is received in its place.
        state.push(client, change.clone())


def _begun(move: Any, worker: Worker, shares: tuple[Tensor, ...]) -> list[Any]:
    """Begin to ``move`` each share from or to its server."""
    return [
        move(share, worker.workers + server, worker.host_group)
        for server, share in enumerate(shares)
    ]


def _wait(works: list[Any]) -> None:
    for work in works:
        work.wait()
