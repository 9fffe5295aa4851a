"""Speed of flows that come and go one by one.

Asynchronous workers that push to and pull from 16 pooled servers.
"""

import time

import numpy as np
import pytest

from dpsim.network import FluidNetwork
from dpsim.network.flows.fluid import FluidEnvironment
from dpsim.topology import Routes

pytestmark = pytest.mark.bench

SERVERS = 16
NBYTES = np.array([100e6])
GPU, CARD = 25e9, 12.5e9  # B/s of a GPU's own link and of a node's network card, each way
COMPUTE = 0.1  # s
LATENCY = np.array([5e-6])


class Workers:
    """``nodes`` x ``gpus`` workers; one way of all links is numbered first, then the other.

    Each GPU, each card, each server.
    """

    def __init__(self, nodes, gpus, server_rate):
        self.count, self.gpus = nodes * gpus, gpus
        one_way = np.concatenate(
            [np.full(self.count, GPU), np.full(nodes, CARD), np.full(SERVERS, server_rate)]
        )
        self.env = FluidEnvironment()
        self.fluid = FluidNetwork(self.env, np.tile(one_way, 2))
        self.servers = self.count + nodes + np.arange(SERVERS)
        self.ways = len(one_way)
        self.share = np.append([1.0, 1.0], np.full(SERVERS, 1 / SERVERS))[None, :]

    def transfer(self, routes):
        through = self.env.event()
        self.fluid.send(routes, NBYTES, lambda _: through.succeed())
        return through

    def work(self, worker, iterations):
        rng = np.random.default_rng(worker)
        links = np.array([[worker, self.count + worker // self.gpus, *self.servers]])
        push, pull = (
            Routes(links, LATENCY, self.share),
            Routes(links + self.ways, LATENCY, self.share),
        )
        for compute in COMPUTE * rng.uniform(0.5, 1.5, iterations):
            yield self.env.timeout(compute)
            yield self.transfer(push)
            yield self.transfer(pull)

    def run(self, iterations):
        """Seconds of this core that the run takes."""
        for worker in range(self.count):
            self.env.process(self.work(worker, iterations))
        begin = time.process_time()
        self.env.run()
        return time.process_time() - begin


@pytest.mark.parametrize("gpus", [8, 1], ids=["8-a-node", "1-a-node"])
@pytest.mark.parametrize(("kind", "server_rate"), [("busy", 12.5e9), ("idle", 400e9)])
def test_1024_asynchronous_workers(measured, gpus, kind, server_rate):
    workers = Workers(1024 // gpus, gpus, server_rate)
    taken = workers.run(20)
    settle = taken / workers.fluid.solves * 1e6
    what = f"20 pushes and pulls at 16 {kind} servers, {settle:.0f} us a settle"
    measured(what, f"1,024 workers, {gpus} a node", taken, limit=10)


@pytest.mark.parametrize("gpus", [8, 1], ids=["8-a-node", "1-a-node"])
def test_32_asynchronous_workers(measured, gpus):
    workers = Workers(32 // gpus, gpus, 12.5e9 / 32)
    taken = workers.run(100)
    settle = taken / workers.fluid.solves * 1e6
    measured(
        f"100 pushes and pulls at 16 busy servers, {settle:.0f} us a settle",
        f"32 workers, {gpus} a node",
        taken,
    )
