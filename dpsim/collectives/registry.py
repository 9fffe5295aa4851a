"""Every algorithm, by operation and name; a new one is a file and a line here."""

from dpsim.collectives.algorithm import Algorithm
from dpsim.collectives.all_gather import ALL_GATHER
from dpsim.collectives.all_to_all import ALL_TO_ALL
from dpsim.collectives.all_to_all_personalised import ALL_TO_ALL_PERSONALISED
from dpsim.collectives.barrier import BARRIER
from dpsim.collectives.broadcast import BROADCAST
from dpsim.collectives.butterfly import BUTTERFLY
from dpsim.collectives.gather import GATHER
from dpsim.collectives.halving_doubling import HALVING_DOUBLING
from dpsim.collectives.master_worker import MASTER_WORKER
from dpsim.collectives.operations import OPERATIONS
from dpsim.collectives.reduce import REDUCE
from dpsim.collectives.reduce_scatter import REDUCE_SCATTER
from dpsim.collectives.ring import RING
from dpsim.collectives.round_robin import ROUND_ROBIN
from dpsim.collectives.scatter import SCATTER
from dpsim.collectives.tree import TREE
from dpsim.registry import Registry

ALGORITHMS: tuple[Algorithm, ...] = (
    ALL_TO_ALL,
    MASTER_WORKER,
    TREE,
    ROUND_ROBIN,
    BUTTERFLY,
    HALVING_DOUBLING,
    RING,
    REDUCE,
    BROADCAST,
    GATHER,
    SCATTER,
    REDUCE_SCATTER,
    ALL_GATHER,
    ALL_TO_ALL_PERSONALISED,
    BARRIER,
)

_BY_OPERATION = {
    operation: Registry(f"{operation} algorithm", {member.name: member for member in ALGORITHMS if member.operation == operation})
    for operation in OPERATIONS
}


def algorithm_names(operation: str = "all-reduce") -> tuple[str, ...]:
    """The names of the algorithms for ``operation``; raises UnknownNameError for an operation that is not known."""
    return tuple(_BY_OPERATION[OPERATIONS[operation].name])


def algorithm(name: str, operation: str = "all-reduce") -> Algorithm:
    """The algorithm ``name`` for ``operation``; raises UnknownNameError naming the nearest known one."""
    return _BY_OPERATION[OPERATIONS[operation].name][name]
