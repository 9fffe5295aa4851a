"""Collective operations as data: schedules, one file per algorithm, and their proof by arithmetic."""

from dpsim.collectives.algorithm import Algorithm, Costs
from dpsim.collectives.arithmetic import execute
from dpsim.collectives.operations import OPERATIONS, Operation
from dpsim.collectives.registry import ALGORITHMS, algorithm, algorithm_names
from dpsim.collectives.schedule import Cyclic, Phase, Round, Schedule, Split
from dpsim.collectives.traffic import Traffic, traffic

__all__ = [
    "ALGORITHMS",
    "OPERATIONS",
    "Algorithm",
    "Costs",
    "Cyclic",
    "Operation",
    "Phase",
    "Round",
    "Schedule",
    "Split",
    "Traffic",
    "algorithm",
    "algorithm_names",
    "execute",
    "traffic",
]
