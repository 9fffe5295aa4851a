"""Small real training: handwritten digits, small networks, and the workers' samples."""

from dpsim.studies.replay.learning.digits import WHITE, Digits, all_digits, digits
from dpsim.studies.replay.learning.network import NETWORKS, Network, mean_loss
from dpsim.studies.replay.learning.sampler import Sampler

__all__ = [
    "NETWORKS",
    "WHITE",
    "Digits",
    "Network",
    "Sampler",
    "all_digits",
    "digits",
    "mean_loss",
]
