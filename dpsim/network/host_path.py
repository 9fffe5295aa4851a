"""All-reduce through the CPUs: copies in, sums in memory, a ring of the nodes' CPUs, copies back.

A node's CPU adds up its g GPUs' vectors of n bytes when all have arrived, in g n / ``sum_rate`` s.
Copies share the node's links and its CPU's memory with each other; one GPU on a link of rate B
takes n / B each way. In one node the total is n / B + g n / r + n / B, if each GPU has its own
link.
"""

from __future__ import annotations

from functools import partial

import numpy as np

from dpsim.base.arrays import FloatArray, IntArray
from dpsim.collectives import Traffic, algorithm
from dpsim.network.collective_models import CollectiveModel
from dpsim.network.conditions import NO_CONDITIONS, Conditions
from dpsim.network.flows import CollectiveRun, SharedNetwork, ends_of_flows
from dpsim.network.outcome import MessageCosts, OnRanks, Outcome
from dpsim.network.rounds import RoundsModel
from dpsim.topology import Hosts, Routes, SubNetwork


class HostPathModel(CollectiveModel):
    """An all-reduce through the CPUs of ``hosts``, which add up ``sum_rate`` B/s."""

    def __init__(
        self, hosts: Hosts, sum_rate: float, conditions: Conditions = NO_CONDITIONS
    ) -> None:
        self.hosts = hosts
        self.network = hosts.network
        self.sum_rate = sum_rate
        self.conditions = conditions
        network = hosts.network
        nearest_cpu = hosts.cpus[hosts.node_of]
        self.to_host: Routes = network.routes(hosts.workers, nearest_cpu)
        self.from_host: Routes = network.routes(nearest_cpu, hosts.workers)
        ring = algorithm("ring").schedule(len(hosts.cpus))
        costs = MessageCosts(gamma=1 / sum_rate)
        self.between = RoundsModel(ring, SubNetwork(network, hosts.cpus), costs)

    def _finish(self, starts: FloatArray, nbytes: int) -> Outcome:
        """Return when each GPU that enters at ``starts`` has the sum (s, vectors over workers)."""
        network, node_of = self.hosts.network, self.hosts.node_of
        # A node's CPU begins to add when the last of its GPUs' vectors has arrived.
        copied = ends_of_flows(network, self.to_host, starts, nbytes, self.conditions)
        arrived = np.full(network.nodes, -np.inf)
        np.maximum.at(arrived, node_of, copied)
        gpus = np.bincount(node_of)
        summed = arrived + gpus * nbytes / self.sum_rate
        if network.nodes == 1:
            exchanged = Outcome(summed, np.zeros(len(network.capacities)))
        elif self.conditions:
            ring, costs, cpus = self.between.schedule, self.between.costs, self.hosts.cpus
            shared = SharedNetwork(network, float(summed.min()), self.conditions)
            exchanged = CollectiveRun(shared, ring, cpus, nbytes, costs, 4).run(summed)
        else:
            exchanged = self.between.finish(summed, nbytes)
        starts_back = exchanged.finishes[node_of]
        back = ends_of_flows(network, self.from_host, starts_back, nbytes, self.conditions)

        capacities = len(network.capacities)
        copies = self.to_host.loads(nbytes, capacities) + self.from_host.loads(nbytes, capacities)
        return Outcome(back, copies + exchanged.loads)

    @property
    def ends(self) -> IntArray:
        """The workers' GPUs."""
        return self.hosts.workers

    @property
    def has_messages(self) -> bool:
        return True

    def run_by_messages(self, shared: SharedNetwork, nbytes: int, leave: OnRanks) -> OnRanks:
        """Start each GPU's copy as it enters."""
        return _Run(self, shared, nbytes, leave).enter

    def traffic(self, nbytes: int) -> Traffic:
        """Return each GPU's vector as sent and the sum as received; CPUs' bytes are separate."""
        workers, nodes = len(self.hosts.workers), self.hosts.network.nodes
        own = np.full(workers, nbytes, dtype=np.int64)
        between = self.between.traffic(nbytes).total if nodes > 1 else 0
        return Traffic(own, own.copy(), by_others=workers * nbytes + between)

    def algorithm_for(self, nbytes: int) -> str:
        """Return ``host-path``."""
        return "host-path"


class _Run:
    """One all-reduce under way, on a shared network."""

    def __init__(
        self, model: HostPathModel, shared: SharedNetwork, nbytes: int, leave: OnRanks
    ) -> None:
        self.model = model
        self.shared = shared
        self.nbytes = float(nbytes)
        self.leave = leave
        # By node: how many of its GPUs' vectors have not arrived, and the time to add them up.
        self._missing = np.bincount(model.hosts.node_of)
        self._summing = self._missing * nbytes / model.sum_rate  # s, of each node
        ring, costs, cpus = model.between.schedule, model.between.costs, model.hosts.cpus
        self._between = CollectiveRun(shared, ring, cpus, nbytes, costs, 4, self._back)

    def enter(self, ranks: IntArray) -> None:
        """Copy the vectors of ``ranks`` to their CPUs."""
        self.shared.send(self.model.to_host, ranks, self.nbytes, self._copied)

    def _copied(self, ranks: IntArray) -> None:
        nodes, copies = np.unique(self.model.hosts.node_of[ranks], return_counts=True)
        self._missing[nodes] -= copies
        for node in nodes[self._missing[nodes] == 0]:
            summed = partial(self._between.enter, np.array([node]))
            self.shared.after(float(self._summing[node]), summed)

    def _back(self, nodes: IntArray) -> None:
        """Copy the sum from the CPUs of ``nodes`` to their GPUs."""
        ranks = np.flatnonzero(np.isin(self.model.hosts.node_of, nodes))
        self.shared.send(self.model.from_host, ranks, self.nbytes, self.leave)
