"""Real training in small.

Handwritten digits, models that learn them in a moment, and which samples a worker takes when.
"""

from dpsim.studies.replay.learning.autograd import TorchNetwork
from dpsim.studies.replay.learning.deal import Deal
from dpsim.studies.replay.learning.digits import Digits, digits
from dpsim.studies.replay.learning.network import NETWORKS, Layer, Network, cross_entropy

__all__ = [
    "NETWORKS",
    "Deal",
    "Digits",
    "Layer",
    "Network",
    "TorchNetwork",
    "cross_entropy",
    "digits",
]
