"""Schedules and library collectives on real ranks, checked and timed.

Depends on ranks, and the schedules of `dpsim.collectives`; needs torch.
"""

from validate.collectives.collective import Collective
from validate.collectives.executor import Executor
from validate.collectives.library import CHUNKED, LibraryCollective
from validate.collectives.payload import TYPES, Part
from validate.collectives.timing import Timing, measure

__all__ = [
    "CHUNKED",
    "TYPES",
    "Collective",
    "Executor",
    "LibraryCollective",
    "Part",
    "Timing",
    "measure",
]
