"""Training replayed in simulated time.

Real gradients, each computed on the parameters that its worker held at that moment.
"""

from dpsim.studies.replay.curve import Curve
from dpsim.studies.replay.fates import Fate, fates, first_reads
from dpsim.studies.replay.replay import Replay, replay

__all__ = ["Curve", "Fate", "Replay", "fates", "first_reads", "replay"]
