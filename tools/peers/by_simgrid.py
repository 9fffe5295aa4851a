"""A ring all-reduce by SimGrid (Debian's python3-simgrid); run by the system's Python.

Takes ranks, bytes, rate (B/s) and latency (s) of each link; prints the finish (s). Max-min fair
sharing (CM02) without TCP's corrections, a thread a rank.
"""

from __future__ import annotations

import sys

from simgrid import (  # type: ignore[import-not-found, unused-ignore]
    Actor,
    Engine,
    Host,
    LinkInRoute,
    Mailbox,
    NetZone,
)

OPTIONS = (
    "network/model:CM02",
    "network/TCP-gamma:0",
    "network/crosstraffic:0",
    "network/bandwidth-factor:1",
    "network/latency-factor:1",
    "network/weight-S:0",
)


def build(ranks: int, rate: float, latency: float) -> None:
    """Build a switch: each rank's outgoing and incoming link, and routes along the ring."""
    zone = NetZone.create_full_zone("all")
    hosts = [zone.create_host(f"rank{rank}", 1e9) for rank in range(ranks)]
    out = [zone.create_link(f"out{rank}", rate).set_latency(latency) for rank in range(ranks)]
    # A route's latency is the sum of its links': the first link has all of it.
    into = [zone.create_link(f"in{rank}", rate).set_latency(0) for rank in range(ranks)]
    for rank in range(ranks):
        following = (rank + 1) % ranks
        route = [LinkInRoute(out[rank]), LinkInRoute(into[following])]
        ends = hosts[rank].netpoint, hosts[following].netpoint
        zone.add_route(*ends, None, None, route, False)
    zone.seal()


def work(rank: int, ranks: int, chunks: list[int]) -> None:
    """Send a chunk and receive one, in each of the rounds."""
    for turn in range(2 * (ranks - 1)):
        nbytes = chunks[(rank - turn) % ranks]
        sent = Mailbox.by_name(f"to{(rank + 1) % ranks}").put_async("chunk", nbytes)
        Mailbox.by_name(f"to{rank}").get()
        # A round ends when the rank has both sent and received, as in a schedule.
        sent.wait()


def main() -> None:
    """Run the simulation."""
    ranks, nbytes = int(sys.argv[1]), int(sys.argv[2])
    engine = Engine(["ring", *(f"--cfg={option}" for option in OPTIONS), "--log=root.thres:error"])
    build(ranks, float(sys.argv[3]), float(sys.argv[4]))
    base, longer = divmod(nbytes // 4, ranks)
    chunks = [4 * (base + (chunk < longer)) for chunk in range(ranks)]
    for rank in range(ranks):
        Actor.create(f"rank{rank}", Host.by_name(f"rank{rank}"), work, rank, ranks, chunks)
    engine.run()
    print(Engine.clock)


main()
