"""Runs any `dpsim.collectives.Schedule` on real ranks, by messages of ``torch.distributed``.

The rules are those of the simulator's executors: a round of a rank begins when all its transfers of
the previous round are done, sent and received; received data are reduced when the round is done. In
each round every receive is posted before any send: gloo announces a posted receive over the
connection that carries the data the other way, and with sends first the two directions take turns.

A send is done when the library says so; for gloo, when the kernel has taken the last byte. With
socket buffers of megabytes a rank then begins its next round long before its message has arrived,
and both share its link: a binomial broadcast of 1 MiB then takes the time of 2.6 messages instead
of 2 (4 ranks, 200 Mbit/s; 1.95 with ``tcp_wmem`` of at most 64 KiB).

Three ways, by backend and device:

- gloo (or mpi) and CPU tensors: sends and receives of the process group;
- gloo and CUDA tensors: the vector is copied to pinned memory of the host, the schedule runs there,
  and the result is copied back;
- nccl: the transfers of a round are one group (``batch_isend_irecv``) on the GPU's stream.

The last two have not run on a GPU yet.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
import torch.distributed as dist

from dpsim.collectives import Chunking, Round, Schedule
from validate.collectives.collective import Collective
from validate.collectives.payload import poison, promised_parts
from validate.ranks.processes import World


class Send(NamedTuple):
    """Elements ``start .. end - 1`` of the vector, sent to ``peer``."""

    peer: int
    start: int
    end: int


class Receive(NamedTuple):
    """Elements ``start .. end - 1``, received from ``peer`` by way of ``scratch``.

    ``scratch`` is their first element there; below 0 they are received directly into the vector.
    """

    peer: int
    start: int
    end: int
    reduce: bool
    scratch: int = -1

    @property
    def length(self) -> int:
        """The elements of the message: at least one."""
        return max(self.end - self.start, 1)


class RankRound(NamedTuple):
    """A round of the schedule for one rank; it needs ``scratch`` elements."""

    sends: tuple[Send, ...]
    receives: tuple[Receive, ...]
    scratch: int


def rank_rounds(schedule: Schedule, chunking: Chunking, rank: int) -> tuple[RankRound, ...]:
    """Return the rounds of ``rank`` in ``schedule``, without empty ones; positions are in elements.

    Compiled once, so that nothing loops over other ranks' transfers during measurements. A slice is
    received directly into the rank's vector if nothing else of the round uses that range;
    otherwise, and if it is reduced, it is received into a scratch buffer and taken from there when
    the round is done: every source of a round is read before any destination is written. A transfer
    of no elements (a barrier's, or of an empty chunk) is still a message: one element of scratch.
    """
    rounds = []
    for current in schedule.each_round():
        mine = np.flatnonzero((current.source == rank) | (current.destination == rank))
        if len(mine):
            rounds.append(_round(current, mine, chunking, rank))
    return tuple(rounds)


def _round(
    current: Round,
    which: np.ndarray[tuple[int], np.dtype[np.int64]],
    chunking: Chunking,
    rank: int,
) -> RankRound:
    starts = chunking.start(current.chunk[which])
    ends = chunking.start(current.chunk[which] + current.count[which])
    sends, receives = [], []
    for transfer, start, end in zip(which, starts.tolist(), ends.tolist(), strict=True):
        source = int(current.source[transfer])
        destination = int(current.destination[transfer])
        if source == rank:
            sends.append(Send(destination, start, end))
        else:
            receives.append(Receive(source, start, end, bool(current.reduce[transfer])))
    return _with_scratch(sends, receives)


def _with_scratch(sends: Sequence[Send], receives: Sequence[Receive]) -> RankRound:
    """Assign scratch to the receives that need it, one after the other."""
    placed = []
    scratch = 0
    for at, receive in enumerate(receives):
        others: list[Send | Receive] = [*sends, *receives[:at], *receives[at + 1 :]]
        empty = receive.end == receive.start
        # All others are received in place, without a copy.
        if receive.reduce or empty or _overlaps(receive, others):
            placed.append(receive._replace(scratch=scratch))
            scratch += receive.length
        else:
            placed.append(receive._replace(scratch=-1))
    return RankRound(tuple(sends), tuple(placed), scratch)


def _overlaps(receive: Receive, others: Iterable[Send | Receive]) -> bool:
    """Return whether another message of the round has some of the same elements."""
    return any(other.start < receive.end and receive.start < other.end for other in others)


class _BoundRound(NamedTuple):
    """A round with its slices as views: (views, peer) to receive and to send.

    ``finish`` has (own, received, reduce) for the parts to take from scratch when all have arrived.
    """

    receives: tuple[tuple[list[Any], int], ...]
    sends: tuple[tuple[list[Any], int], ...]
    finish: tuple[tuple[Any, Any, bool], ...]


class Executor(Collective):
    """One schedule for one rank of ``world``; ``elements`` is the length of one of its vectors.

    Rounds are compiled at creation, and bound to a tensor when first run on it; scratch is reused.
    ``through_host`` says whether the vector is staged in the host's memory; by default, if the
    backend cannot send it from its device. ``tag`` must differ between concurrent executors.
    Raises ValueError if the schedule is for another number of ranks.
    """

    def __init__(
        self,
        schedule: Schedule,
        elements: int,
        world: World,
        dtype: Any = torch.float32,
        *,
        through_host: bool | None = None,
        tag: int = 0,
    ) -> None:
        if schedule.ranks != world.size:
            raise ValueError(
                f"{schedule!r} must run on {schedule.ranks} ranks, but got {world.size}"
            )
        chunking = schedule.chunking(elements)
        total = elements * schedule.vectors
        parts = promised_parts(schedule.operation, world.rank, world.size, chunking)
        super().__init__(world, (total, total), parts, dtype)
        self._tag = tag
        self._in_groups = world.backend == "nccl"
        self._rounds = rank_rounds(schedule, chunking, world.rank)
        on_gpu = world.on_gpu
        staged = (on_gpu and not self._in_groups) if through_host is None else through_host
        self._where = torch.device("cpu") if staged else world.device
        self._host = torch.empty(total, dtype=dtype, pin_memory=on_gpu) if staged else None
        self._scratch = self._empty(max((each.scratch for each in self._rounds), default=0))
        self._signal = self._empty(1).zero_()  # sent for a transfer of no elements
        self._bound_to: Any = None
        self._bound: list[_BoundRound] = []

    def prepare(self, source: Any, target: Any) -> None:
        """Prepare the buffers, and put invalid values into scratch."""
        super().prepare(source, target)
        poison(self._scratch)

    def run(self, source: Any, target: Any) -> None:
        """Run the schedule on ``target``, which starts as a copy of ``source``.

        The two may be the same tensor.
        """
        vector = target
        if self._host is not None:
            vector = self._host
            vector.copy_(source)
        elif target is not source:
            target.copy_(source)
        # The warm-up makes the views of a tensor, so that the measured repetitions only send.
        if self._bound_to is not vector:
            self._bind(vector)
        if self._in_groups:
            self._run_groups()
        else:
            self._run_rounds()
        if self._host is not None:
            target.copy_(vector)

    def _empty(self, elements: int) -> Any:
        return torch.empty(elements, dtype=self.dtype, device=self._where)

    def _run_rounds(self) -> None:
        """Run the rounds; messages between a pair of ranks arrive in the order of sending."""
        group, tag = self.world.group, self._tag
        for current in self._bound:
            works = [group.recv(views, peer, tag) for views, peer in current.receives]
            works += [group.send(views, peer, tag) for views, peer in current.sends]
            for work in works:
                work.wait()
            self._finish(current)

    def _run_groups(self) -> None:
        """Run the rounds as NCCL groups.

        Waiting and reducing is queued on the stream, not done by the host.
        """
        for current in self._bound:
            receives = [dist.P2POp(dist.irecv, views[0], peer) for views, peer in current.receives]
            sends = [dist.P2POp(dist.isend, views[0], peer) for views, peer in current.sends]
            for work in dist.batch_isend_irecv(receives + sends):
                work.wait()
            self._finish(current)

    def _finish(self, current: _BoundRound) -> None:
        for own, received, reduce in current.finish:
            if reduce:
                own.add_(received)
            else:
                own.copy_(received)

    def _bind(self, vector: Any) -> None:
        """Bind every round to ``vector`` and scratch."""
        self._bound = [self._lay_out(each, vector, self._scratch) for each in self._rounds]
        self._bound_to = vector

    def _lay_out(self, current: RankRound, vector: Any, scratch: Any) -> _BoundRound:
        receives, sends, finish = [], [], []
        for receive in current.receives:
            elements = vector[receive.start : receive.end]
            if receive.scratch < 0:
                receives.append(([elements], receive.peer))
                continue
            received = scratch[receive.scratch : receive.scratch + receive.length]
            receives.append(([received], receive.peer))
            # A signal's one element is received and dropped.
            if receive.end > receive.start:
                finish.append((elements, received, receive.reduce))
        for send in current.sends:
            view = vector[send.start : send.end] if send.end > send.start else self._signal
            sends.append(([view], send.peer))
        return _BoundRound(tuple(receives), tuple(sends), tuple(finish))
