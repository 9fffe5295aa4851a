"""Priority: gradients of front layers overtake, so that the next forward pass can start early.

Tensors are cut into slices; whenever the network is free, the slice whose layer comes first in the
forward pass is sent next. A layer's forward pass in the next step waits only for its own slices.
The order is computed from expected times, since all workers must agree on it. Sources: Jayarajan et
al., "Priority-based parameter propagation", MLSys 2019; Peng et al., "ByteScheduler", SOSP 2019.
"""

from __future__ import annotations

import heapq
import math
from collections import deque
from dataclasses import replace
from functools import cache
from itertools import count, pairwise
from typing import ClassVar, Literal

from pydantic import Field

from dpsim.base.budget import check
from dpsim.base.units import PositiveBytes
from dpsim.strategy.aggregation import Calls, CollectiveCall
from dpsim.strategy.overlap.plan import Outlook, Overlap

_MOST_SLICES = 10_000


class PriorityConfig(Overlap):
    """Front layers' gradients are sent before later layers'."""

    kind: Literal["priority"] = Field(
        description="Front layers' gradients are sent first, so the next forward pass starts early."
    )
    slice_size: PositiveBytes = Field(
        default=4 * 2.0**20, description="Slice size; larger gradients are sent in slices."
    )

    front_first: ClassVar[bool] = True
    needs_times: ClassVar[bool] = True

    def plan(self, calls: Calls, outlook: Outlook) -> Calls:
        """Return the slices in the order in which the network sends them."""
        waiting = deque(sorted(calls, key=lambda call: call.ready))
        order: list[CollectiveCall] = []
        # A heap ordered by the position where slices are needed, then by arrival.
        ready: list[tuple[int, int, deque[CollectiveCall]]] = []
        free, arrivals = 0.0, count()
        seconds = cache(outlook.seconds)
        next_ready = outlook.ready(waiting[0]) if waiting else math.inf
        while waiting or ready:
            check()
            if not ready:
                # The network is idle until the next gradient is ready.
                free = max(free, next_ready)
            while next_ready <= free:
                slices = self._slices(waiting.popleft(), outlook)
                heapq.heappush(ready, (slices[0].needed, next(arrivals), slices))
                next_ready = outlook.ready(waiting[0]) if waiting else math.inf
            slices = ready[0][2]
            order.append(slices.popleft())
            free += seconds(order[-1].nbytes)
            if not slices:
                heapq.heappop(ready)
        return tuple(order)

    def _slices(self, call: CollectiveCall, outlook: Outlook) -> deque[CollectiveCall]:
        """Return equal slices, needed when the next step's forward pass of the layer begins."""
        check()
        layer = outlook.pass_end - call.ready
        needed = outlook.program.next_step(layer)
        slices = max(min(math.ceil(call.nbytes / self.slice_size), _MOST_SLICES), 1)
        if slices == 1:
            return deque([replace(call, needed=needed)])
        # Differences of rounded bounds add up to the gradient exactly.
        bounds = [call.nbytes * i // slices for i in range(slices + 1)]
        sizes = [end - begin for begin, end in pairwise(bounds)]
        return deque(call.parts(sizes, needed))
