"""Every algorithm, by operation and name; a new one is a file and a line here."""

from pkgutil import resolve_name

from dpsim.base.registry import Registry
from dpsim.collectives.algorithm import Algorithm
from dpsim.collectives.operations import OPERATIONS

# Where each is, as "file:NAME" of this package: a file is imported when its algorithm is asked for.
_HOMES = {
    "all-reduce": {
        "all-to-all": "all_to_all:ALL_TO_ALL",
        "master-worker": "master_worker:MASTER_WORKER",
        "tree": "tree:TREE",
        "pipelined-tree": "pipelined_tree:PIPELINED_TREE",
        "double-binary-tree": "double_binary_tree:DOUBLE_BINARY_TREE",
        "round-robin": "round_robin:ROUND_ROBIN",
        "butterfly": "butterfly:BUTTERFLY",
        "halving-doubling": "halving_doubling:HALVING_DOUBLING",
        "ring": "ring:RING",
        "hierarchical": "hierarchical:HIERARCHICAL",
        "torus-2d": "torus_2d:TORUS_2D",
        "swing": "swing:SWING",
    },
    "reduce": {"tree": "reduce:REDUCE"},
    "broadcast": {"tree": "broadcast:BROADCAST"},
    "gather": {"tree": "gather:GATHER"},
    "scatter": {"tree": "scatter:SCATTER"},
    "reduce-scatter": {"ring": "reduce_scatter:REDUCE_SCATTER"},
    "all-gather": {"ring": "all_gather:ALL_GATHER"},
    "all-to-all": {"pairwise": "all_to_all_personalised:ALL_TO_ALL_PERSONALISED"},
    "barrier": {"dissemination": "barrier:BARRIER"},
}

_BY_OPERATION: dict[str, Registry[str]] = {
    operation: Registry(f"{operation} algorithm", homes) for operation, homes in _HOMES.items()
}

# All-reduces that a model carries out or chooses, beside the algorithms above.
IN_NETWORK = "in-network"
AUTO = "auto"
NOT_SCHEDULES = (IN_NETWORK, AUTO)

ALL_REDUCES: Registry[str] = Registry(
    "all-reduce algorithm", {name: name for name in (*_BY_OPERATION["all-reduce"], *NOT_SCHEDULES)}
)


def algorithm_names(operation: str = "all-reduce") -> tuple[str, ...]:
    """The names of the algorithms for ``operation``.

    Raises UnknownNameError for an operation that is not known.
    """
    return tuple(_BY_OPERATION[OPERATIONS[operation].name])


def algorithm(name: str, operation: str = "all-reduce") -> Algorithm:
    """The algorithm ``name`` for ``operation``.

    Raises UnknownNameError naming the nearest known one.
    """
    home = _BY_OPERATION[OPERATIONS[operation].name][name]
    found: Algorithm = resolve_name(f"dpsim.collectives.{home}")
    return found
