"""Training replayed in simulated time: real gradients, each computed on the parameters that its worker held at that moment."""

from dpsim.replay.curve import Curve
from dpsim.replay.fates import Fate, fates, first_reads
from dpsim.replay.replay import Replay, replay

__all__ = ["Curve", "Fate", "Replay", "fates", "first_reads", "replay"]
