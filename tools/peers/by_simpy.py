"""A ring all-reduce in plain SimPy: a process per rank, a resource per link."""

from __future__ import annotations

import sys
from collections.abc import Generator

import simpy

Process = Generator[simpy.Event, None, None]


class Ring:
    """Ranks that pass chunks on, each over its outgoing link and the next one's incoming link."""

    def __init__(self, ranks: int, nbytes: int, rate: float, latency: float) -> None:
        self.env = simpy.Environment()
        self.ranks, self.rate, self.latency = ranks, rate, latency
        # Elements of four bytes; the first chunks have one more if the vector does not divide
        # evenly.
        base, longer = divmod(nbytes // 4, ranks)
        self.chunks = [4 * (base + (chunk < longer)) for chunk in range(ranks)]
        self.out = [simpy.Resource(self.env) for _ in range(ranks)]
        self.into = [simpy.Resource(self.env) for _ in range(ranks)]
        self.came = [simpy.Store(self.env) for _ in range(ranks)]

    def finish(self) -> float:
        """Return the time at which the last rank finishes (s)."""
        for rank in range(self.ranks):
            self.env.process(self._work(rank))
        self.env.run()
        return float(self.env.now)

    def _work(self, rank: int) -> Process:
        for turn in range(2 * (self.ranks - 1)):
            sent = self.env.process(self._send(rank, self.chunks[(rank - turn) % self.ranks]))
            yield sent & self.came[rank].get()

    def _send(self, rank: int, nbytes: int) -> Process:
        following = (rank + 1) % self.ranks
        yield self.env.timeout(self.latency)
        # A link carries one message at a time. In a ring no two messages share a link, so fair
        # sharing would change nothing.
        with self.out[rank].request() as out, self.into[following].request() as into:
            yield out & into
            yield self.env.timeout(nbytes / self.rate)
        yield self.came[following].put(nbytes)


if __name__ == "__main__":
    print(Ring(int(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3]), float(sys.argv[4])).finish())
