"""How gradients meet."""

from dpsim.aggregation.allreduce import AllReduceConfig
from dpsim.aggregation.operation import Operation, merged

__all__ = ["AllReduceConfig", "Operation", "merged"]
