"""Real training in small: handwritten digits, models that learn them in a moment, and which samples a worker takes when."""

from dpsim.learning.autograd import TorchNetwork
from dpsim.learning.config import ReplayConfig
from dpsim.learning.deal import Deal
from dpsim.learning.digits import Digits, digits
from dpsim.learning.network import NETWORKS, Layer, Network

__all__ = ["NETWORKS", "Deal", "Digits", "Layer", "Network", "ReplayConfig", "TorchNetwork", "digits"]
