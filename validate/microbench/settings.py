"""The settings of microbenchmarks: sizes, types, repetitions, and a model."""

from __future__ import annotations

from itertools import product
from typing import Literal

from pydantic import Field, NonNegativeInt, PositiveFloat, PositiveInt

from dpsim.base.config import Config
from dpsim.base.errors import UnknownNameError
from dpsim.collectives import OPERATIONS, algorithm
from dpsim.studies.collective import size_range
from dpsim.workload import OPTIMIZERS, is_in_8_bits

LIBRARY = "library"
ALL = "all"
# torch has no optimisers in 8 bits.
MEASURED = tuple(name for name in OPTIMIZERS if not is_in_8_bits(name))
_TYPE_NAMES = ("int8", "uint8", "int32", "int64", "half", "float", "double", "bfloat16")


class Settings(Config):
    """The options of ``dpsim validate microbench``.

    Options named as in nccl-tests have the same meaning.
    """

    what: tuple[str, ...] = Field(min_length=1, description="Names of benchmarks.")
    backend: str = Field(default="auto", description="auto, gloo, nccl or mpi.")
    device: str = Field(default="auto", description="auto, cpu or cuda.")
    timeout: PositiveFloat = Field(
        default=60.0, description="Seconds that ranks wait for each other."
    )
    begin: NonNegativeInt = Field(default=4096, description="Smallest size in bytes (-b).")
    end: NonNegativeInt = Field(default=2**22, description="Largest size in bytes (-e).")
    factor: PositiveFloat = Field(
        default=4.0, description="Factor from each size to the next (-f)."
    )
    iterations: PositiveInt = Field(default=20, description="Measured repetitions (-n).")
    warmup: NonNegativeInt = Field(default=2, description="Warm-up repetitions (-w).")
    datatypes: tuple[str, ...] = Field(
        default=("float",), description="Data types, in nccl-tests' names (-d)."
    )
    operations: tuple[str, ...] = Field(
        default=("all-reduce",), description="Collective operations."
    )
    algorithms: tuple[str, ...] = Field(
        default=(LIBRARY,), description="Algorithms of dpsim, or library for the backend's own."
    )
    model: str = Field(
        default="small-cnn", description="small-cnn, small-transformer or package.module:factory."
    )
    input: tuple[PositiveInt, ...] = Field(
        default=(), description="Shape of one sample, for a factory."
    )
    input_type: Literal["float32", "int64"] = Field(
        default="float32", description="Data type of the input, for a factory."
    )
    precision: Literal["fp32", "tf32", "fp16", "bf16"] = Field(
        default="fp32", description="Precision of layers and learners; fp16 and bf16 by autocast."
    )
    memory_format: Literal["channels_first", "channels_last"] = Field(
        default="channels_first", description="Memory format of images and convolution weights."
    )
    execution: Literal["eager", "compile", "graph", "cuda-graph"] = Field(
        default="eager", description="Execution of passes, as in workload.execution."
    )
    optimizer_kernels: Literal["loop", "foreach", "fused", "sharded"] = Field(
        default="foreach", description="Optimizer kernels, as in workload.optimizer_kernels."
    )
    batch_sizes: tuple[PositiveInt, ...] = Field(
        default=(1, 4, 16), min_length=1, description="Samples in a batch."
    )
    optimizers: tuple[str, ...] = Field(default=MEASURED, description=", ".join(MEASURED) + ".")
    at_once: bool = Field(
        default=False,
        description="All ranks compute at the same time, as in training, not rank 0 alone.",
    )
    learners: tuple[PositiveInt, ...] = Field(
        default=(1, 2, 4), description="Number of replicas that share a device."
    )

    def sizes(self) -> list[int]:
        """Bytes from ``begin`` to ``end`` by ``factor``.

        Raises DpsimError for no sizes or too many.
        """
        return size_range(self.begin, self.end, self.factor)

    def checked(self) -> Settings:
        """Return the settings with ``all`` expanded, duplicates removed, and sizes in order.

        Raises DpsimError, naming the option, for an unknown name.
        """
        datatypes = _names("-d", self.datatypes, _TYPE_NAMES)
        operations = _names("--operation", self.operations, tuple(OPERATIONS))
        optimizers = _names("--optimizer", self.optimizers, MEASURED)
        schedules = [name for name in self.algorithms if name not in (LIBRARY, ALL)]
        for name, operation in product(schedules, operations):
            algorithm(name, operation)  # raises for an unknown one
        self.sizes()  # raises for invalid sizes
        named = {
            "what": tuple(dict.fromkeys(self.what)),
            "datatypes": datatypes,
            "operations": operations,
            "optimizers": optimizers,
            "batch_sizes": tuple(sorted(set(self.batch_sizes))),
            # Always measure one learner alone, since its rows are the utilisation curve.
            "learners": tuple(sorted({1, *self.learners})),
        }
        return self.model_copy(update=named)


def _names(option: str, names: tuple[str, ...], known: tuple[str, ...]) -> tuple[str, ...]:
    if ALL in names:
        return known
    for name in names:
        if name not in known:
            raise UnknownNameError(f"value of {option}", name, (*known, ALL))
    return names
