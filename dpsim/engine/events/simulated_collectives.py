"""The collectives of a job as the event engine simulates them: their groups and kinds."""

from __future__ import annotations

import numpy as np

from dpsim.collectives import ranks_array
from dpsim.engine.events.contention import conditions_of, contended_links
from dpsim.engine.events.running_collectives import (
    Bundle,
    ByMessages,
    EarlyExit,
    RankGroup,
    Rendezvous,
    RunningCollective,
    SharedLinks,
)
from dpsim.engine.events.sending import Span
from dpsim.engine.job import Job
from dpsim.network import CollectiveModel, SharedNetwork


class SimulatedCollective:
    """A collective of ``nbytes`` in one of its turns; ``group_of`` is the group of each worker."""

    def __init__(
        self,
        shared_links: SharedLinks,
        model: CollectiveModel,
        nbytes: int,
        kind: type[RunningCollective],
    ) -> None:
        self.shared_links = shared_links
        self.nbytes = nbytes
        self.kind = kind
        # Messages of all groups are simulated together, with each rank at its own pace.
        by_messages = kind is ByMessages
        groups = ranks_array(len(model.ends))[None] if by_messages else model.members
        # Each row of ``groups`` is a group; its workers get the row's number.
        group_of = np.empty(groups.size, dtype=np.int64)
        group_of[groups] = np.arange(len(groups))[:, None]
        self.group_of: list[int] = group_of.tolist()
        self.groups = [
            RankGroup(
                {rank: index for index, rank in enumerate(ranks.tolist())},
                model if by_messages else model.of_group(ranks),
            )
            for ranks in groups
        ]

    def open(self, group: int, span: Span) -> RunningCollective:
        """Start the collective in ``group``."""
        return self.kind(self.shared_links, self.groups[group], self.nbytes, span)


class SimulatedCollectives:
    """All collectives of ``job``, on one network."""

    def __init__(self, job: Job) -> None:
        self._job = job
        contended = np.empty(0, dtype=np.int64) if job.by_messages else contended_links(job)
        shared = SharedNetwork(job.network, 0.0, conditions_of(job))
        self.shared_links = SharedLinks(shared, contended)
        self._known: dict[tuple[str, int, int], SimulatedCollective] = {}

    def get(self, name: str, nbytes: int, step: int) -> SimulatedCollective:
        """Return the collective ``name`` of ``nbytes`` in ``step``."""
        turns = self._job.collectives[name]
        key = name, step % len(turns), nbytes
        found = self._known.get(key)
        if found is None:
            model = self._job.collective(name, step).of_size(nbytes)
            found = SimulatedCollective(self.shared_links, model, nbytes, self._kind(model))
            self._known[key] = found
        return found

    def _kind(self, model: CollectiveModel) -> type[RunningCollective]:
        """Return the class that simulates ``model``."""
        shares = model.network is self._job.network
        contended = shares and len(self.shared_links.contended) > 0
        # A bundle starts when all ranks have entered, so a collective that some leave earlier is
        # simulated by messages.
        if (
            model.has_messages
            and shares
            and (self._job.by_messages or (not model.joins_all and contended))
        ):
            return ByMessages
        if not model.joins_all:
            return EarlyExit
        return Bundle if contended else Rendezvous
