"""Workers that meet, event by event: the reference that the vector path is held to.

Each worker is a process for its compute stream and one for its communication stream; what they send
meets on one network.
"""

from dpsim.engine.events.contention import overload_links
from dpsim.engine.events.exactness import inexact_because
from dpsim.engine.events.expense import takes_a_moment
from dpsim.engine.events.world import run_events

__all__ = ["inexact_because", "overload_links", "run_events", "takes_a_moment"]
