"""Replays a run's log in one process: which gradient was applied to which model, and when.

The only random part of a run is the order of messages, which its log records; given that order,
losses and weights are determined, and must be the same without any messages.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from validate.training.all_workers import Replayed
from validate.training.method import Method
from validate.training.rank_record import RankRecord
from validate.training.replay_pairs import replay_pairs
from validate.training.replay_servers import replay_servers
from validate.training.replay_steps import (
    replay_compressed,
    replay_gossip,
    replay_learners,
    replay_local_sgd,
    replay_whole_batch,
)
from validate.training.settings import Training

Replay = Callable[[Any, Sequence[RankRecord], Training], Replayed]

# All others are bulk-synchronous: they should equal one process on whole batches.
_REPLAYS: Mapping[str, Replay] = {
    "parameter-server": replay_servers,
    "backup": replay_servers,
    "local-sgd": replay_local_sgd,
    "gossip": replay_gossip,
    "ad-psgd": replay_pairs,
    "sma": replay_learners,
    "compressed": replay_compressed,
}


def replay(method: Method, records: Sequence[RankRecord], training: Training) -> Replayed:
    """Return the expected result of the run of ``records``, one per rank, in order.

    Raises DpsimError for an impossible log.
    """
    return _REPLAYS.get(method.kind, replay_whole_batch)(method, records, training)
