"""What NCCL's collectives take on a described machine: its own choice of algorithm and protocol, priced with fitted constants."""

from dpsim.network.nccl.cost import OPS
from dpsim.network.nccl.describe import Description, describe, describe_system
from dpsim.network.nccl.explain import Explanation, Rival, explain
from dpsim.network.nccl.machine import NcclMachine
from dpsim.network.nccl.model import NcclModel
from dpsim.network.nccl.notes import Note
from dpsim.network.nccl.prediction import Prediction, predict

__all__ = [
    "OPS",
    "Description",
    "Explanation",
    "NcclMachine",
    "NcclModel",
    "Note",
    "Prediction",
    "Rival",
    "describe",
    "describe_system",
    "explain",
    "predict",
]
