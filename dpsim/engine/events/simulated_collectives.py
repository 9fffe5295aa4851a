"""How each collective of a job is simulated: its groups, and the links that it shares."""

from __future__ import annotations

import numpy as np

from dpsim.collectives import ranks_array
from dpsim.engine.events.contention import conditions_of, contended_links
from dpsim.engine.events.running_collectives import (
    Bundle,
    OneByOne,
    Party,
    Played,
    RunningCollective,
    SharedLinks,
    Together,
)
from dpsim.engine.events.sending import Span
from dpsim.engine.job import Job
from dpsim.network import CollectiveModel, SharedNetwork


class Line:
    """One collective of ``nbytes`` in one turn; ``group_of`` is the group of each worker."""

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
        # A collective simulated by messages has all groups in one party, each rank at its own pace.
        whole = kind is Played
        groups = ranks_array(len(model.ends))[None] if whole else model.members
        # A row of ``groups`` holds the workers of one group; each worker gets its row's number.
        group_of = np.empty(groups.size, dtype=np.int64)
        group_of[groups] = np.arange(len(groups))[:, None]
        self.group_of: list[int] = group_of.tolist()
        self.parties = [
            Party(
                {rank: place for place, rank in enumerate(ranks.tolist())},
                model if whole else model.of_group(ranks),
            )
            for ranks in groups
        ]

    def open(self, group: int, span: Span) -> RunningCollective:
        """Start one collective of ``group``."""
        return self.kind(self.shared_links, self.parties[group], self.nbytes, span)


class Lines:
    """All collectives of ``job``, on one network."""

    def __init__(self, job: Job) -> None:
        self._job = job
        contended = np.empty(0, dtype=np.int64) if job.by_messages else contended_links(job)
        shared = SharedNetwork(job.network, 0.0, conditions_of(job))
        self.shared_links = SharedLinks(shared, contended)
        self._lines: dict[tuple[str, int, int], Line] = {}

    def line(self, name: str, nbytes: int, step: int) -> Line:
        """Return the collective ``name`` of ``nbytes`` in ``step``."""
        turns = self._job.collectives[name]
        key = name, step % len(turns), nbytes
        found = self._lines.get(key)
        if found is None:
            model = self._job.collective(name, step).of_size(nbytes)
            found = Line(self.shared_links, model, nbytes, self._kind(model))
            self._lines[key] = found
        return found

    def _kind(self, model: CollectiveModel) -> type[RunningCollective]:
        """Return how ``model`` is simulated."""
        shares = model.network is self._job.network
        contended = shares and len(self.shared_links.contended) > 0
        # A bundle begins when all have entered; a collective that some leave earlier uses messages.
        if (
            model.plays
            and shares
            and (self._job.by_messages or (not model.joins_all and contended))
        ):
            return Played
        if not model.joins_all:
            return OneByOne
        return Bundle if contended else Together
