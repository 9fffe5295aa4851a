"""A worker's side of parameter servers.

Shares to and from each of them, over point-to-point messages. Tags separate pushes, pulls, and
short words. Every receive is posted before the message that makes the other side send.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from validate.ranks.processes import World

PUSH, PULL, GO, REPLY = 1001, 1002, 1003, 1004
LEAVE = -1


def share(nbytes: int, servers: int) -> int:
    """Return the bytes of one server's share of a payload: equal shares, at least one byte."""
    return max(-(-nbytes // servers), 1)


def payload(nbytes: int) -> Any:
    """Return bytes to send, or a buffer for them."""
    return torch.zeros(nbytes, dtype=torch.uint8)


def send(world: World, tensor: Any, peer: int, tag: int) -> Any:
    """Begin to send to ``peer``; the returned work's ``wait`` ends when it is on its way."""
    return world.group.send([tensor], peer, tag)


def send_all(world: World, tensor: Any, peers: Sequence[int], tag: int) -> None:
    """Send a payload to each of ``peers``, all at once; returns when all are on their way.

    TCP shares links unevenly among flows that cross: four hosts that send each other 256 KiB at 100
    Mbit/s take 80 ms, where 63.4 are ideal; in pieces of 32 KiB, to each in turn, 66 ms, but with
    servers' threads beside it nothing is gained.
    """
    wait_all([send(world, tensor, peer, tag) for peer in peers])


def receive(world: World, tensor: Any, peer: int, tag: int) -> Any:
    """Post a receive from ``peer``; the returned work's ``wait`` ends when it has arrived."""
    return world.group.recv([tensor], peer, tag)


def wait_all(works: Sequence[Any]) -> None:
    """Wait until all are done."""
    for work in works:
        work.wait()


def rotate(peers: Sequence[int], by: int) -> list[int]:
    """Return the same peers, beginning with number ``by`` modulo their number."""
    by %= max(len(peers), 1)
    return [*peers[by:], *peers[:by]]


class Client:
    """A worker's messages to and from the servers, in equal shares.

    It calls `expect`, then `push`, then `pull`. Each worker begins with another server.
    """

    def __init__(self, world: World, servers: Sequence[int]) -> None:
        self._world = world
        # If all began with server 0, its link would carry all shares while the others' are idle.
        self._servers = rotate(servers, world.rank + 1)
        self._coming: list[Any] = []

    def expect(self, nbytes: int) -> None:
        """Post receives for the servers' answers."""
        own = share(nbytes, len(self._servers))
        self._coming = []
        for server in self._servers:
            self._coming.append(receive(self._world, payload(own), server, PULL))

    def push(self, nbytes: int) -> None:
        """Send a message; returns when it is on its way."""
        own = share(nbytes, len(self._servers))
        send_all(self._world, payload(own), self._servers, PUSH)

    def pull(self) -> None:
        """Wait for the servers' answers."""
        wait_all(self._coming)

    def push_and_pull(self, push: int, pull: int) -> None:
        """Push a message, and wait for the answer once all workers' shares are applied."""
        self.expect(pull)
        self.push(push)
        self.pull()

    def go(self, iteration: int) -> None:
        """Tell the servers that an iteration begins, or that there are no more (`LEAVE`)."""
        word = torch.tensor([iteration])
        wait_all([send(self._world, word, server, GO) for server in self._servers])

    def expect_reply(self, numbers: int) -> Callable[[], Any]:
        """Post receives for ``numbers`` numbers from each server.

        Returns a function that waits for them and returns them, (servers, numbers).
        """
        # Each row of one tensor receives a message, so that nothing need be copied together.
        room = torch.zeros(len(self._servers), numbers, dtype=torch.float64)
        coming = [
            receive(self._world, room[index], server, REPLY)
            for index, server in enumerate(self._servers)
        ]

        def replies() -> Any:
            wait_all(coming)
            return room.numpy()

        return replies
