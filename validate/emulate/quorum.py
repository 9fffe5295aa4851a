"""Decides when a collective may begin: when this worker is ready, or enough others are.

A worker that is not ready then takes part with the data it has.

Each worker tells all others, in a message of 8 bytes, that it is ready for a collective. Source: Li
et al., "Taming unbalanced training workloads in deep learning with partial collective operations",
PPoPP 2020.
"""

from __future__ import annotations

import threading
from typing import Any

import torch

from validate.emulate.push_pull import receive, send, wait_all
from validate.ranks.processes import World

THERE = 1005


class Quorum:
    """Counts the ``workers`` that are ready for each of ``total`` collectives.

    ``quorum`` of them are enough for it to begin.
    """

    def __init__(self, world: World, workers: int, quorum: int, total: int) -> None:
        self._world = world
        self._quorum = quorum
        self._total = total
        self._there = [0] * total
        self._own = 0
        self._said: list[Any] = []  # messages on their way must be kept
        self._changed = threading.Condition()
        # If all are needed, the collective itself waits for all, and no messages are needed.
        self._peers: list[int] = []
        if quorum < workers:
            self._peers = [peer for peer in range(workers) if peer != world.rank]
        self._listeners = [
            threading.Thread(target=self._listen, args=(peer,), daemon=True) for peer in self._peers
        ]
        for listener in self._listeners:
            listener.start()

    def ready(self, number: int) -> None:
        """Announce that this worker is ready for collective ``number``, after all before it."""
        with self._changed:
            self._own = number + 1
            self._there[number] += 1
            self._changed.notify_all()
        for peer in self._peers:
            self._said.append(send(self._world, torch.tensor([number]), peer, THERE))

    def wait(self, number: int) -> None:
        """Wait until this worker is ready, or enough others are."""
        # A worker that is ready takes part at once, even without a quorum: the collective has then
        # begun for it, and waits for the others' threads.
        with self._changed:
            self._changed.wait_for(
                lambda: self._own > number or self._there[number] >= self._quorum
            )

    def close(self) -> None:
        """Wait until all others have sent all their messages."""
        for listener in self._listeners:
            listener.join()
        wait_all(self._said)

    def _listen(self, peer: int) -> None:
        word = torch.zeros(1, dtype=torch.int64)
        for _ in range(self._total):
            receive(self._world, word, peer, THERE).wait()
            with self._changed:
                self._there[int(word)] += 1
                self._changed.notify_all()
