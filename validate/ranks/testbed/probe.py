"""One rank of the testbed's self-check: bytes over plain TCP, all flows of a pattern at once.

Started as ``python probe.py PATTERNS ADDRESSES``, in JSON: a list of patterns, each a list of flows
``[source, destination, bytes]``, and the address of each rank. For every flow the sender records
its start and the receiver its end, in seconds of the monotonic clock, which all hosts of a testbed
share.
"""

from __future__ import annotations

import json
import os
import socket
import sys
import threading
import time
from collections.abc import Sequence

from validate.ranks.launch import report_connected, write_row

_CHUNK = 2**18
_PATIENCE_S = 20.0  # for the others to listen, send or receive

Flow = tuple[int, int, int]


class Ranks:
    """A socket between this rank and each other one, used both ways.

    The higher rank of the two connects to the lower one.
    """

    def __init__(self, rank: int, ranks: int, addresses: Sequence[str], port: int) -> None:
        self.rank = rank
        with socket.create_server((addresses[rank], port + rank), backlog=ranks) as server:
            server.settimeout(_PATIENCE_S)
            # Connect before accepting, since the backlog holds connections that come meanwhile.
            self.to = {lower: _reach(addresses[lower], port + lower, rank) for lower in range(rank)}
            for _ in range(rank + 1, ranks):
                peer = server.accept()[0]
                peer.settimeout(_PATIENCE_S)
                self.to[int.from_bytes(_receive(peer, 4))] = peer

    def barrier(self) -> None:
        """Wait until all are here: rank 0 hears from every rank, then releases them."""
        if self.rank:
            self.to[0].sendall(b"b")
            _receive(self.to[0], 1)
            return
        for peer in self.to.values():
            _receive(peer, 1)
        for peer in self.to.values():
            peer.sendall(b"g")

    def transfer(self, number: int, flows: Sequence[Flow]) -> None:
        """Send and receive this rank's flows of a pattern at once, and record the times."""
        parts = []
        for flow in flows:
            source, destination, _ = flow
            if source == self.rank:
                parts.append(threading.Thread(target=self._send, args=(number, flow)))
            if destination == self.rank:
                parts.append(threading.Thread(target=self._take, args=(number, flow)))
        for part in parts:
            part.start()
        for part in parts:
            part.join()

    def close(self) -> None:
        """Close all sockets."""
        for peer in self.to.values():
            peer.close()

    def _send(self, number: int, flow: Flow) -> None:
        _, destination, size = flow
        data = bytes(size)
        began = time.monotonic()
        self.to[destination].sendall(data)
        write_row({"pattern": number, "flow": flow, "began": began})

    def _take(self, number: int, flow: Flow) -> None:
        source, _, size = flow
        remaining = size
        room = memoryview(bytearray(_CHUNK))
        while remaining:
            got = self.to[source].recv_into(room, min(remaining, _CHUNK))
            if not got:
                raise ConnectionError(
                    f"rank {source} has closed the connection, {remaining} bytes short"
                )
            remaining -= got
        write_row({"pattern": number, "flow": flow, "ended": time.monotonic()})


def _reach(address: str, port: int, rank: int) -> socket.socket:
    """Return a connection to a rank that may not listen yet."""
    end = time.monotonic() + _PATIENCE_S
    while True:
        try:
            peer = socket.create_connection((address, port), timeout=_PATIENCE_S)
            break
        except ConnectionRefusedError:
            if time.monotonic() > end:
                raise
            time.sleep(0.02)
    peer.sendall(rank.to_bytes(4))
    return peer


def _receive(peer: socket.socket, size: int) -> bytes:
    data = b""
    while len(data) < size:
        chunk = peer.recv(size - len(data))
        if not chunk:
            raise ConnectionError(f"{peer.getpeername()[0]} has closed the connection")
        data += chunk
    return data


def main() -> None:
    """Connect, run each pattern between two barriers, and record."""
    rank = int(os.environ["RANK"])
    ranks = int(os.environ["WORLD_SIZE"])
    patterns, addresses = map(json.loads, sys.argv[1:])
    others = Ranks(rank, ranks, addresses, int(os.environ["MASTER_PORT"]))
    report_connected()
    for number, flows in enumerate(patterns):
        others.barrier()
        others.transfer(number, flows)
    others.barrier()
    others.close()


if __name__ == "__main__":
    main()
