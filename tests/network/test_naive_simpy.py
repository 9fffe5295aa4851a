"""A ring all-reduce in plain SimPy, a process per rank and a resource per link, as an oracle."""

import pytest
import simpy

from dpsim.network import named_model
from dpsim.topology import UniformSwitch


class Ring:
    """Ranks that pass chunks on, each over its outgoing link and the next one's incoming link."""

    def __init__(self, ranks, nbytes, rate, latency):
        self.env = simpy.Environment()
        self.ranks, self.rate, self.latency = ranks, rate, latency
        # Elements of four bytes; the first chunks have one more if the vector does not divide
        # evenly.
        base, longer = divmod(nbytes // 4, ranks)
        self.chunks = [4 * (base + (chunk < longer)) for chunk in range(ranks)]
        self.out = [simpy.Resource(self.env) for _ in range(ranks)]
        self.into = [simpy.Resource(self.env) for _ in range(ranks)]
        self.came = [simpy.Store(self.env) for _ in range(ranks)]

    def finish(self):
        for rank in range(self.ranks):
            self.env.process(self._work(rank))
        self.env.run()
        return self.env.now

    def _work(self, rank):
        for turn in range(2 * (self.ranks - 1)):
            sent = self.env.process(self._send(rank, self.chunks[(rank - turn) % self.ranks]))
            yield sent & self.came[rank].get()

    def _send(self, rank, nbytes):
        following = (rank + 1) % self.ranks
        yield self.env.timeout(self.latency)
        # A link carries one message at a time. In a ring no two messages share a link, so fair
        # sharing would change nothing.
        with self.out[rank].request() as out, self.into[following].request() as into:
            yield out & into
            yield self.env.timeout(nbytes / self.rate)
        yield self.came[following].put(nbytes)


@pytest.mark.parametrize("ranks", [2, 7, 16])
def test_flows_finish_when_naive_simpy_does(ranks):
    # Ranks that divide the elements: else a chunk more in a round is no waiting of all.
    nbytes, rate, latency = ranks * 4_000_000, 50e9, 500e-9
    model = named_model("flows", "ring", UniformSwitch(ranks, rate, latency))
    naive = Ring(ranks, nbytes, rate, latency).finish()
    assert naive == pytest.approx(model.seconds_from_common_start(nbytes), rel=1e-9)
