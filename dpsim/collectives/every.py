"""Every algorithm of the registry, for suites, the catalogue and the reference."""

from dpsim.collectives.algorithm import Algorithm
from dpsim.collectives.operations import OPERATIONS
from dpsim.collectives.registry import algorithm, algorithm_names

ALGORITHMS: tuple[Algorithm, ...] = tuple(
    algorithm(name, operation) for operation in OPERATIONS for name in algorithm_names(operation)
)
