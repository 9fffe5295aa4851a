"""All-reduce: every worker ends with the sum of all gradients (algorithms: `dpsim.collectives`)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Annotated, ClassVar, Literal

from pydantic import AfterValidator, Field, WithJsonSchema

from dpsim.collectives import ALL_REDUCES, all_reduce
from dpsim.network.libraries import default_algorithm
from dpsim.strategy.aggregation.aggregation import (
    Aggregation,
    AllReduceChoice,
    Sent,
    Stages,
    Turns,
)
from dpsim.strategy.aggregation.collective_call import Calls, CollectiveCall, gradients
from dpsim.strategy.aggregation.setting import Setting
from dpsim.topology import Mesh
from dpsim.workload import Model, Program

_USED_BYTES = 4  # per parameter, in the map of used parameters (torch's reducer)

AlgorithmName = Annotated[
    str,
    # Unknown names are errors that suggest the nearest known one.
    AfterValidator(all_reduce),
    WithJsonSchema(
        {
            "anyOf": [
                {"type": "string", "enum": [*ALL_REDUCES]},
                {"type": "string", "pattern": "^butterfly:[0-9]+$", "examples": ["butterfly:4"]},
            ]
        }
    ),
]


class AllReduceConfig(Aggregation):
    """Every worker gets the sum of all gradients."""

    label: ClassVar[str] = "all-reduce"
    averaged_by: ClassVar[str] = "all-reduce"
    in_groups: ClassVar[bool] = True
    # Gloo's all-reduce is torch's own on processors.
    torch_libraries: ClassVar[tuple[str, ...]] = ("ideal", "auto", "gloo")
    also_called: ClassVar[tuple[str, ...]] = ("ddp", "horovod")

    kind: Literal["allreduce"] = Field(description="Every worker gets the sum of all gradients.")
    algorithm: AlgorithmName | None = Field(
        default=None,
        description=(
            "All-reduce algorithm (dpsim catalogue algorithms). butterfly:4 has degree 4: 4 ranks "
            "exchange in each round; in-network: the switches reduce; auto: the fastest at each "
            "size. With a library, it must use this algorithm. If left out: the library's own "
            "choice, or a ring without a library."
        ),
    )
    library: Literal["auto", "ideal", "nccl", "gloo", "mpi"] = Field(
        default="auto",
        description=(
            "Library that runs the all-reduce. ideal: the algorithm without a library's "
            "overheads; nccl, gloo, mpi: timed as those libraries run; auto: nccl on NVIDIA and "
            "AMD (RCCL) GPUs if it has the algorithm, otherwise ideal."
        ),
    )

    sync_each_pass: bool = Field(
        default=False,
        description=(
            "true: gradients are reduced after every pass of gradient_accumulation, and the next "
            "pass waits (torch's DDP without no_sync(), accelerate's sync_each_batch). false: "
            "only their sum is reduced, after the last pass (the only choice in DeepSpeed)."
        ),
    )
    find_unused_parameters: bool = Field(
        default=False,
        description=(
            "Before a backward pass the host searches the autograd graph, 0.3 us a node (assumed "
            "from torch 2.13 on a CPU); workers all-reduce a map of used parameters, 4 bytes "
            "each; buckets keep the order of parameters. As in torch and accelerate (Trainer: "
            "ddp_find_unused_parameters); DeepSpeed has no such option."
        ),
    )
    static_graph: bool = Field(
        default=False,
        description=(
            "The graph is the same in every step, so only the first step, which is not counted, "
            "has the cost of find_unused_parameters. As in torch and accelerate "
            "(DistributedDataParallelKwargs); DeepSpeed has no such option."
        ),
    )
    gradient_as_bucket_view: bool = Field(
        default=False,
        description=(
            "Gradients are views of the buckets, so memory holds them once, not twice; the step "
            "time still includes the copy. As in torch and accelerate; DeepSpeed's "
            "contiguous_gradients copies."
        ),
    )

    @property
    def views_buckets(self) -> bool:  # type: ignore[override]
        return self.gradient_as_bucket_view

    @property
    def reduces_each_pass(self) -> bool:  # type: ignore[override]
        return self.sync_each_pass

    @property
    def rebuilds_buckets(self) -> bool:  # type: ignore[override]
        """Whether buckets are rebuilt: not if steps may use different parameters."""
        return self.static_graph or not self.find_unused_parameters

    def searched_nodes(self, model: Model) -> float:
        """Return a node for each kernel of the forward pass and for each gradient.

        torch's graph also has views such as transposed weights.
        """
        kernels = float(model.vector("steps").sum())
        return 0.0 if self.rebuilds_buckets else kernels + len(model.tensors.elements)

    @property
    def all_reduce(self) -> AllReduceChoice:
        return AllReduceChoice(self.algorithm or default_algorithm(self.library), self.library)

    def calls(self, model: Model, program: Program, batch: int, mesh: Mesh) -> Calls:
        """Return one all-reduce per parameter tensor, in the order in which gradients become ready.

        An all-reduce of the map of used parameters follows if the scenario asks for it.
        """
        calls = gradients(model, program, "all-reduce", each_pass=self.sync_each_pass)
        if self.sync_each_pass:
            # DDP waits for its buckets at the end of a backward pass.
            calls = tuple(
                replace(call, needed=program.begin(program.pass_of(call.ready - 1) + 1))
                for call in calls
            )
        if self.rebuilds_buckets:
            return calls
        ends = dict.fromkeys(call.needed for call in calls)
        size = _USED_BYTES * len(model.tensors.elements)
        return calls + tuple(
            CollectiveCall(f"used{end}", size, end, end, payload="used parameters") for end in ends
        )

    def collectives(self, setting: Setting) -> Mapping[str, Turns]:
        """Return the all-reduce, and an all-gather if a codec's payloads do not add up."""
        library, carried = setting.library_for(self.library, self.algorithm or "auto")
        if carried is None:
            carried = setting.timed(self.algorithm or default_algorithm(library), library=library)
        models: dict[str, Turns] = {"all-reduce": (carried,)}
        # Sparse or scaled payloads cannot be summed in flight: each worker gathers and adds them.
        if not setting.sums_in_flight:
            gathered = setting.timed(default_algorithm(library), "all-gather", library)
            models["all-gather"] = (gathered,)
        return models

    def stages(self, collective: str, sent: Sent, mesh: Mesh) -> Stages:
        """Return an all-reduce of payloads that add up, or else an all-gather from all workers."""
        if sent.sums_in_flight or collective != "all-reduce":
            return tuple((collective, nbytes) for nbytes in sent.encoded)
        # The size of an all-gather is its result's size, as in nccl-tests: all workers' payloads.
        return tuple(("all-gather", mesh.ranks * nbytes) for nbytes in sent.encoded)
