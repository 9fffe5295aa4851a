"""Priority: gradients of front layers overtake, so that the next forward pass can start early.

It need not wait until all have arrived. Tensors are cut into slices; whenever the network is free,
the slice whose layer comes first in the forward pass goes next. A layer's forward pass in the next
step waits for its own slices alone. The order is fixed from the expected times, since all workers
must agree on it. Sources: Jayarajan et al., "Priority-based parameter propagation", MLSys 2019;
Peng et al., "ByteScheduler", SOSP 2019.
"""

from __future__ import annotations

import heapq
import math
from collections import deque
from dataclasses import replace
from itertools import count, pairwise
from typing import ClassVar, Literal

from pydantic import Field

from dpsim.base.budget import check
from dpsim.base.units import PositiveBytes
from dpsim.strategy.aggregation import CollectiveCall
from dpsim.strategy.overlap.plan import Outlook, Overlap

_MOST_SLICES = 10_000


class PriorityConfig(Overlap):
    """Gradients of front layers overtake those of later ones."""

    kind: Literal["priority"] = Field(
        description="Gradients of front layers overtake; the next forward pass starts early."
    )
    slice_size: PositiveBytes = Field(
        default=4 * 2.0**20, description="Larger gradients travel in slices of this size."
    )

    front_first: ClassVar[bool] = True
    minds_times: ClassVar[bool] = True

    def plan(
        self, calls: tuple[CollectiveCall, ...], outlook: Outlook
    ) -> tuple[CollectiveCall, ...]:
        """The slices in the order in which the network takes them."""
        slices = [part for call in calls for part in self._slices(call, outlook)]
        waiting = deque(sorted(slices, key=lambda part: part.ready))
        order: list[CollectiveCall] = []
        # A heap by the place where a slice is needed, then by arrival; calls have no order.
        ready: list[tuple[int, int, CollectiveCall]] = []
        free, arrivals = 0.0, count()
        while waiting or ready:
            check()
            if not ready:
                # The network stands idle until the next slice is there.
                free = max(free, outlook.ready(waiting[0]))
            while waiting and outlook.ready(waiting[0]) <= free:
                part = waiting.popleft()
                heapq.heappush(ready, (part.needed, next(arrivals), part))
            part = heapq.heappop(ready)[2]
            order.append(part)
            free += outlook.seconds(part.nbytes)
        return tuple(order)

    def _slices(self, call: CollectiveCall, outlook: Outlook) -> list[CollectiveCall]:
        """Equal slices, each needed where the layer's forward pass of the next step begins."""
        check()
        layer = outlook.pass_end - call.ready
        needed = outlook.program.next_step(layer)
        slices = max(min(math.ceil(call.nbytes / self.slice_size), _MOST_SLICES), 1)
        if slices == 1:
            return [replace(call, needed=needed)]
        # Differences of rounded bounds, so that the slices add up to the gradient to the byte.
        bounds = [call.nbytes * i // slices for i in range(slices + 1)]
        parts = []
        for i, (begin, end) in enumerate(pairwise(bounds)):
            parts.append(replace(call, name=f"{call.name}/{i}", nbytes=end - begin, needed=needed))
        return parts
