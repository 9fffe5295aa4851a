"""All-reduce through the CPUs: copies in, sums in memory, a ring of the nodes' CPUs, copies back.

A node's CPU adds up its g GPUs' vectors of n bytes when all are there, g n / ``sum_rate`` s. Copies
share the node's links and its CPU's memory with each other; one GPU on a link of rate B takes n / B
each way. Through one node: n / B + g n / r + n / B, where the GPUs' links are their own.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from dpsim.base.arrays import FloatArray
from dpsim.collectives import Schedule, Traffic, algorithm
from dpsim.network.conditions import NO_CONDITIONS, Conditions
from dpsim.network.flows import FlowsModel, ends_of_flows
from dpsim.network.model import Ability, CollectiveModel, MessageCosts, Outcome
from dpsim.network.rounds import RoundsModel
from dpsim.topology import Hosts, Routes, SubNetwork


class HostPathModel(CollectiveModel):
    """An all-reduce by way of the CPUs of ``hosts``, which add up ``sum_rate`` B/s."""

    abilities = Ability.OWN_STARTS | Ability.UNEVEN_OVERLAP | Ability.CONDITIONS

    def __init__(
        self, hosts: Hosts, sum_rate: float, conditions: Conditions = NO_CONDITIONS
    ) -> None:
        self.hosts = hosts
        self.network = hosts.network
        self.sum_rate = sum_rate
        self.conditions = conditions
        network, workers, cpus = hosts.network, hosts.workers, hosts.cpus[hosts.node_of]
        self._to_host: Routes = network.routes(workers, cpus)
        self._from_host: Routes = network.routes(cpus, workers)
        ring, costs = algorithm("ring").schedule(len(hosts.cpus)), MessageCosts(gamma=1 / sum_rate)
        if conditions:
            self._between: CollectiveModel = _with_others(ring, hosts, costs, conditions)
        else:
            self._between = RoundsModel(ring, SubNetwork(network, hosts.cpus), costs)

    def finish(self, starts: FloatArray, nbytes: int) -> Outcome:
        """When each GPU has the sum (s) that enters at ``starts`` (s, a vector over workers)."""
        network, node_of = self.hosts.network, self.hosts.node_of
        there = ends_of_flows(network, self._to_host, starts, nbytes, self.conditions)
        arrived = np.full(network.nodes, -np.inf)
        np.maximum.at(arrived, node_of, there)
        summed = arrived + np.bincount(node_of) * nbytes / self.sum_rate
        met = (
            self._between.finish(summed, nbytes)
            if network.nodes > 1
            else Outcome(summed, np.zeros(len(network.capacities)))
        )
        back = ends_of_flows(
            network, self._from_host, met.finishes[node_of], nbytes, self.conditions
        )
        loads = np.zeros(len(network.capacities) + 1)  # the last is for -1, no link
        for routes in (self._to_host, self._from_host):
            np.add.at(loads, routes.links, float(nbytes))
        return Outcome(back, loads[:-1] + met.loads)

    def traffic(self, nbytes: int) -> Traffic:
        """A GPU sends its vector and receives the sum; what CPUs send is beside it."""
        workers, nodes = len(self.hosts.workers), self.hosts.network.nodes
        own = np.full(workers, nbytes, dtype=np.int64)
        between = self._between.traffic(nbytes).total if nodes > 1 else 0
        return Traffic(own, own.copy(), beside=workers * nbytes + between)

    def algorithm_for(self, nbytes: int) -> str:
        """``host-path``."""
        return "host-path"


def _with_others(
    ring: Schedule, hosts: Hosts, costs: MessageCosts, conditions: Conditions
) -> FlowsModel:
    """The ring of the nodes' CPUs, on a network that has the ends of the other traffic after them."""
    flows, first = conditions.background, len(hosts.cpus)
    ends = np.array(
        [end for flow in flows for end in (flow.source, flow.destination)], dtype=np.int64
    )
    renumbered = [
        replace(flow, source=first + 2 * number, destination=first + 2 * number + 1)
        for number, flow in enumerate(flows)
    ]
    network = SubNetwork(hosts.network, np.concatenate([hosts.cpus, ends]))
    return FlowsModel(
        ring, network, costs, conditions=replace(conditions, background=tuple(renumbered))
    )
