"""Training replayed in simulated time.

Real gradients, each computed on the parameters that its worker held at that moment.
"""

from dpsim.studies.replay.curve import Curve
from dpsim.studies.replay.gradient_history import GradientHistory, first_reads, gradient_histories
from dpsim.studies.replay.replay import Replay, replay

__all__ = ["Curve", "GradientHistory", "Replay", "first_reads", "gradient_histories", "replay"]
