"""Replay training in simulated time: gradients are computed on the versions that workers held."""

from dpsim.studies.replay.curve import Curve
from dpsim.studies.replay.gradient_history import GradientHistory, first_reads, gradient_histories
from dpsim.studies.replay.paths import Paths, weight_paths
from dpsim.studies.replay.replay import Replay, replay

__all__ = [
    "Curve",
    "GradientHistory",
    "Paths",
    "Replay",
    "first_reads",
    "gradient_histories",
    "replay",
    "weight_paths",
]
