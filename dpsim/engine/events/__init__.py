"""Synchronous workers, event by event: the reference implementation for the vector path.

Each worker has one process for its compute stream and one for its communication stream; all
transfers share one network.
"""

from dpsim.engine.events.contention import inexact_because, overload_links
from dpsim.engine.events.world import run_events

__all__ = [
    "inexact_because",
    "overload_links",
    "run_events",
]
