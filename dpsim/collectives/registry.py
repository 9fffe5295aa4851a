"""Every algorithm, by operation and name; a new one is a file and a line here."""

from dpsim.base.registry import Registry
from dpsim.collectives.algorithm import Algorithm
from dpsim.collectives.all_gather import ALL_GATHER
from dpsim.collectives.all_to_all import ALL_TO_ALL
from dpsim.collectives.all_to_all_personalised import ALL_TO_ALL_PERSONALISED
from dpsim.collectives.barrier import BARRIER
from dpsim.collectives.broadcast import BROADCAST
from dpsim.collectives.butterfly import BUTTERFLY
from dpsim.collectives.double_binary_tree import DOUBLE_BINARY_TREE
from dpsim.collectives.gather import GATHER
from dpsim.collectives.halving_doubling import HALVING_DOUBLING
from dpsim.collectives.hierarchical import HIERARCHICAL
from dpsim.collectives.master_worker import MASTER_WORKER
from dpsim.collectives.operations import OPERATIONS
from dpsim.collectives.pipelined_tree import PIPELINED_TREE
from dpsim.collectives.reduce import REDUCE
from dpsim.collectives.reduce_scatter import REDUCE_SCATTER
from dpsim.collectives.ring import RING
from dpsim.collectives.round_robin import ROUND_ROBIN
from dpsim.collectives.scatter import SCATTER
from dpsim.collectives.swing import SWING
from dpsim.collectives.torus_2d import TORUS_2D
from dpsim.collectives.tree import TREE

ALGORITHMS: tuple[Algorithm, ...] = (
    ALL_TO_ALL,
    MASTER_WORKER,
    TREE,
    PIPELINED_TREE,
    DOUBLE_BINARY_TREE,
    ROUND_ROBIN,
    BUTTERFLY,
    HALVING_DOUBLING,
    RING,
    HIERARCHICAL,
    TORUS_2D,
    SWING,
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
    operation: Registry(
        f"{operation} algorithm",
        {member.name: member for member in ALGORITHMS if member.operation == operation},
    )
    for operation in OPERATIONS
}


IN_NETWORK = "in-network"
AUTO = "auto"
NOT_SCHEDULES = (
    IN_NETWORK,
    AUTO,
)  # all-reduces that a model carries out or chooses, beside the algorithms above
ALL_REDUCES: Registry[str] = Registry(
    "all-reduce algorithm", {name: name for name in (*_BY_OPERATION["all-reduce"], *NOT_SCHEDULES)}
)


def algorithm_names(operation: str = "all-reduce") -> tuple[str, ...]:
    """The names of the algorithms for ``operation``; raises UnknownNameError for an operation that
    is not known.
    """
    return tuple(_BY_OPERATION[OPERATIONS[operation].name])


def algorithm(name: str, operation: str = "all-reduce") -> Algorithm:
    """The algorithm ``name`` for ``operation``; raises UnknownNameError naming the nearest known
    one.
    """
    return _BY_OPERATION[OPERATIONS[operation].name][name]
