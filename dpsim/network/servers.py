"""Parameter servers: workers push shares of their payload to k servers, and pull the result.

A worker's push is one flow that uses 1/k of its rate on the links of each of the k servers, and so
is its pull. This is exact if servers are equal. A server processes pushes in the order of their
ends, each ``n / k`` bytes at ``update_rate``; copies of its state go to ``replicas - 1`` further
servers in a chain. With links of equal rate B everywhere, m workers in step and no other cost, a
push takes max(n / B, m n / (k B)) in addition to its latency: servers saturate if k B < m B.
Sources: Li et al., "Scaling distributed machine learning with the parameter server", OSDI 2014
(shares, chains of replicas); Jiang et al., "A unified architecture for accelerating distributed DNN
training in heterogeneous GPU/CPU clusters", OSDI 2020 (BytePS: servers beside the workers).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, partial
from typing import TYPE_CHECKING, Literal

import numpy as np

from dpsim.base.arrays import FloatArray, IntArray
from dpsim.base.budget import check, check_memory
from dpsim.collectives import Traffic
from dpsim.network.collective_models import CollectiveModel
from dpsim.network.conditions import NO_CONDITIONS, Conditions
from dpsim.network.flows import ends_of_flows
from dpsim.network.maxmin import max_min_rates
from dpsim.network.outcome import OnRanks, Outcome
from dpsim.topology import Network, Routes

if TYPE_CHECKING:
    from dpsim.network.flows import SharedNetwork

_BYTES_A_ROUTE = 200.0  # in `_bundle`: its links, several times over


@dataclass(frozen=True, eq=False)
class Servers:
    """The workers and servers of a parameter server, and the servers' rate.

    ``workers`` and ``servers`` are ends of routes of ``network``; a server adds up and applies
    ``update_rate`` bytes/s.
    """

    network: Network
    workers: IntArray
    servers: IntArray
    update_rate: float
    replicas: int = 1
    conditions: Conditions = NO_CONDITIONS

    @cached_property
    def to_servers(self) -> Routes:
        """Each worker's push as one flow."""
        return self._bundle(self.network.routes)

    @cached_property
    def from_servers(self) -> Routes:
        """Each worker's pull as one flow."""
        return self._bundle(lambda workers, servers: self.network.routes(servers, workers))

    def update_seconds(self, nbytes: float) -> float:
        """Return how long each server takes to process one worker's push of ``nbytes`` to all."""
        return nbytes / len(self.servers) / self.update_rate

    def replication_seconds(self, nbytes: float) -> float:
        """Return the seconds until the last replica has the servers' copy of ``nbytes``.

        All chains of replicas move together.
        """
        if self.replicas == 1:
            return 0.0
        # Each server's next replica is on the server after it.
        routes = self.network.routes(self.servers, np.roll(self.servers, -1))
        rates = max_min_rates(routes.links, self.network.capacities)
        hop = routes.latency + nbytes / len(self.servers) / rates
        return float((self.replicas - 1) * hop.max())

    def _bundle(self, routes: Callable[[IntArray, IntArray], Routes]) -> Routes:
        """Return each worker's links to all servers, with the share of its flow on each."""
        workers, servers = len(self.workers), len(self.servers)
        check_memory(
            _BYTES_A_ROUTE * workers * servers,
            f"routes from {workers:,} workers to {servers:,} servers",
        )
        separate = routes(np.repeat(self.workers, servers), np.tile(self.servers, workers))
        # Half as wide, because sorting millions of numbers takes most of the time.
        links = np.sort(separate.links.astype(np.int32).reshape(workers, -1), axis=1)
        check()
        # A worker's own links are on its routes to all servers: they count once, with all of its
        # rate. After sorting, equal links are adjacent, and padding (-1) comes first.
        begins = np.empty(links.shape, dtype=bool)
        begins[:, :1] = (
            links[:, :1] >= 0
        )  # False at padding: a server on the worker's device has no links
        np.not_equal(links[:, 1:], links[:, :-1], out=begins[:, 1:])
        first_index = np.flatnonzero(begins)
        worker, link = first_index // links.shape[1], links.ravel()[first_index]
        # How often each link occurs: until the next one begins, or the worker's row ends.
        row_end = (worker + 1) * links.shape[1]
        count = np.minimum(np.append(first_index[1:], links.size), row_end) - first_index

        # Workers ascend, so a link's number within its worker is its distance from the first one.
        of_worker = np.bincount(worker, minlength=workers)
        hop = np.arange(len(worker)) - np.repeat(np.cumsum(of_worker) - of_worker, of_worker)
        hops = int(of_worker.max())
        table = np.full((workers, hops), -1, dtype=np.int64)
        share = np.zeros((workers, hops))
        table[worker, hop] = link
        share[worker, hop] = count / servers
        # A bundle ends when its slowest part does.
        latency = separate.latency.reshape(workers, servers).max(axis=1)
        return Routes(table, latency, share)


class ServersModel(CollectiveModel):
    """One direction of a parameter server with all workers in step: push, or pull."""

    def __init__(self, servers: Servers, direction: Literal["push", "pull"]) -> None:
        self.servers = servers
        self.network = servers.network
        self.conditions = servers.conditions
        self.direction = direction
        self._ends_from_common_start: dict[
            int, FloatArray
        ] = {}  # s by bytes, of flows that start at once

    def _finish(self, starts: FloatArray, nbytes: int) -> Outcome:
        """Return the outcome of a push or a pull.

        Push: all ranks finish when the servers have applied everything. Pull: each worker finishes
        when it has everything.
        """
        ends, loads = self._ends(starts, nbytes), self.loads(nbytes)
        if self.direction == "pull":
            return Outcome(ends, loads)
        return Outcome(np.full(len(ends), self.arriving(ends, nbytes)), loads)

    def loads(self, nbytes: int) -> FloatArray:
        """Return the bytes on each capacity, which do not depend on when flows start."""
        return self.routes.loads(nbytes, len(self.network.capacities))

    def _ends(self, starts: FloatArray, nbytes: int) -> FloatArray:
        """Return when each worker's flow that starts at ``starts`` (s) ends (s)."""
        servers, begin = self.servers, starts[0]
        if servers.conditions.changes or np.any(starts != begin):
            return ends_of_flows(servers.network, self.routes, starts, nbytes, servers.conditions)
        # The time of flows that start together does not depend on when they start.
        if nbytes not in self._ends_from_common_start:
            self._ends_from_common_start[nbytes] = ends_of_flows(
                servers.network, self.routes, np.zeros(len(starts)), nbytes, servers.conditions
            )
        return np.asarray(begin + self._ends_from_common_start[nbytes])

    @property
    def routes(self) -> Routes:
        """Each worker's routes in this direction."""
        return self.servers.to_servers if self.direction == "push" else self.servers.from_servers

    @property
    def ends(self) -> IntArray:
        """The workers' GPUs."""
        return self.servers.workers

    @property
    def has_messages(self) -> bool:
        return True

    def run_by_messages(self, shared: SharedNetwork, nbytes: int, leave: OnRanks) -> OnRanks:
        """Start each worker's push or pull as it enters."""
        return _Run(self, shared, nbytes, leave).enter

    def arriving(self, ends: FloatArray, nbytes: int) -> float:
        """Return when pushes that end at ``ends`` (s) are applied, and copied to the replicas."""
        # Pushes are processed in the order of their ends, so later ones queue behind each.
        update = self.servers.update_seconds(nbytes)
        still_to_do = np.arange(len(ends), 0, -1)
        applied = float((np.sort(ends) + update * still_to_do).max())
        return applied + self.servers.replication_seconds(nbytes)

    def traffic(self, nbytes: int) -> Traffic:
        """Return the workers' bytes; the servers' bytes are counted separately."""
        workers = len(self.servers.workers)
        own = np.full(workers, nbytes, dtype=np.int64)
        nothing = np.zeros(workers, dtype=np.int64)
        if self.direction == "push":
            return Traffic(own, nothing, by_others=(self.servers.replicas - 1) * nbytes)
        return Traffic(nothing, own, by_others=workers * nbytes)

    def algorithm_for(self, nbytes: int) -> str:
        """Return ``parameter-server``."""
        return "parameter-server"


class _Run:
    """One direction under way, on a shared network."""

    def __init__(
        self, model: ServersModel, shared: SharedNetwork, nbytes: int, leave: OnRanks
    ) -> None:
        self.model = model
        self.shared = shared
        self.nbytes = nbytes
        self.leave = leave
        self._ends: list[float] = []

    def enter(self, ranks: IntArray) -> None:
        """Start the flows of ``ranks`` now."""
        ended = self.leave if self.model.direction == "pull" else self._pushed
        self.shared.send(self.model.routes, ranks, float(self.nbytes), ended)

    def _pushed(self, ranks: IntArray) -> None:
        """Record ended pushes; all workers leave when the last push is applied."""
        now = self.shared.env.now
        self._ends += [now] * len(ranks)
        if len(self._ends) == len(self.model.servers.workers):
            applied = self.model.arriving(np.array(self._ends), self.nbytes)
            everyone = np.arange(len(self._ends))
            self.shared.after(applied - now, partial(self.leave, everyone))
