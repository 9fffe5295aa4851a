"""All registered algorithms, for test suites, the catalogue and the reference."""

from dpsim.collectives.algorithm import Algorithm, algorithm, algorithm_names
from dpsim.collectives.operations import OPERATIONS

ALGORITHMS: tuple[Algorithm, ...] = tuple(
    algorithm(name, operation) for operation in OPERATIONS for name in algorithm_names(operation)
)
