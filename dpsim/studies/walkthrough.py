"""A collective round by round: transfers, partial sums, bytes and time so far.

The partial sums come from executing the schedule, times from the rounds model; no algorithm is
described a second time here.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from dpsim.base.arrays import BoolArray, FloatArray, IntArray
from dpsim.base.errors import DpsimError
from dpsim.collectives import (
    OPERATIONS,
    Chunking,
    Phase,
    Round,
    Schedule,
    contributions,
    fixed,
)
from dpsim.network import MessageCosts, RoundsModel
from dpsim.topology import Network

MOST_RANKS = 16  # more would not be readable, as letters or rows


@dataclass(frozen=True, slots=True, eq=False)
class WalkthroughRound:
    """A round and the state after it.

    ``held`` has shape (ranks, chunks, ranks), as in `contributions`. ``nbytes`` are the bytes of
    each transfer, ``sent`` the bytes of all rounds so far, ``sent_by_busiest`` the bytes of the
    rank that sent most. On a network, ``seconds`` is when the last rank has ended the round, and
    ``loads`` are the bytes on each capacity in it.
    """

    transfers: Round
    nbytes: IntArray
    held: IntArray
    sent: int
    sent_by_busiest: int
    seconds: float | None
    loads: FloatArray | None


@dataclass(frozen=True, slots=True, eq=False)
class Walkthrough:
    """A schedule on vectors of ``nbytes``, round by round.

    ``begin`` is the initial state of the ranks. ``counts`` (ranks, chunks) says whether a rank's
    input contributes to the result. ``wanted`` is the required final state, as in `contributions`,
    NaN where any value is allowed.
    """

    schedule: Schedule
    network: Network | None
    nbytes: int
    begin: IntArray
    counts: BoolArray
    wanted: FloatArray
    rounds: tuple[WalkthroughRound, ...]


def walk_through(
    schedule: Schedule,
    nbytes: int,
    network: Network | None = None,
    costs: MessageCosts | None = None,
    itemsize: int = 4,
) -> Walkthrough:
    """Walk through ``schedule`` on vectors of ``nbytes`` bytes, timed on ``network`` if given.

    Raises DpsimError for more than 16 ranks.
    """
    if schedule.ranks > MOST_RANKS:
        raise DpsimError(
            f"must have at most {MOST_RANKS} ranks to be shown round by round, but has "
            f"{schedule.ranks}"
        )
    held = list(contributions(schedule))
    of_chunks = Chunking(schedule.chunks, schedule.chunks, schedule.vectors)
    wanted = OPERATIONS[schedule.operation].expected(held[0], of_chunks)
    # wanted[rank, chunk, source]: over all ranks, whether any needs a source's part of a chunk.
    counts: BoolArray = np.any(np.nan_to_num(wanted) > 0, axis=0).T
    rounds = _rounds(schedule, held[1:], schedule.chunking(nbytes, itemsize), network, costs)
    return Walkthrough(schedule, network, nbytes, held[0], counts, wanted, tuple(rounds))


def _rounds(
    schedule: Schedule,
    held: Sequence[IntArray],
    chunking: Chunking,
    network: Network | None,
    costs: MessageCosts | None,
) -> Iterator[WalkthroughRound]:
    each_round = list(schedule.each_round())
    sent = np.zeros(schedule.ranks)
    for number, (transfers, after) in enumerate(zip(each_round, held, strict=True), 1):
        nbytes = chunking.nbytes(transfers.chunk, transfers.count)
        np.add.at(sent, transfers.source, nbytes)
        seconds, loads = None, None
        if network is not None:
            # Time all rounds so far, because ranks do not wait for each other between rounds, so
            # times of single rounds do not add up. With few ranks this is cheap.
            so_far = replace(schedule, phases=tuple(map(_as_phase, each_round[:number])))
            model = RoundsModel(so_far, network, costs, itemsize=chunking.itemsize)
            ended = model.finish(np.zeros(network.ranks), chunking.total).finishes
            routes = network.routes(transfers.source, transfers.destination)
            seconds, loads = float(ended.max()), routes.loads(nbytes, len(network.capacities))
        yield WalkthroughRound(
            transfers, nbytes, after, int(sent.sum()), int(sent.max()), seconds, loads
        )


def _as_phase(transfers: Round) -> Phase:
    """Return a round of a schedule as a phase."""
    return Phase(
        transfers.source,
        fixed(transfers.destination),
        fixed(transfers.chunk),
        transfers.reduce,
        transfers.count,
    )
