"""Sharded data parallelism: workers divide the state that an all-reduce replicates m times.

These are ZeRO's stages 1 to 3, FSDP being stage 3. Stage 1 divides the optimiser's state, 2 the
gradients too, 3 the weights too. Gradients are reduce-scattered, so that each worker updates its
part. Below stage 3 the updated weights are then all-gathered: 2 (m-1)/m S in all, like an
all-reduce. In stage 3 each unit of layers is gathered before its forward pass and again before its
backward pass, ``prefetch`` units ahead: 3 (m-1)/m S. Weights and gradients travel in
``weight_bytes`` and 4 bytes an element. Sources: Rajbhandari et al., "ZeRO", SC 2020; Zhao et al.,
"PyTorch FSDP", VLDB 16, 2023.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import partial
from typing import ClassVar, Literal, Self

import numpy as np
from pydantic import Field, NonNegativeInt, field_validator, model_validator

from dpsim.base.units import PositiveBytes
from dpsim.network.libraries import TRAITS, default_algorithm
from dpsim.strategy.aggregation.aggregation import Aggregation, Sent, Stages, Turns
from dpsim.strategy.aggregation.collective_call import Calls, CollectiveCall, Group, gradients
from dpsim.strategy.aggregation.offload import HostCopies, OffloadConfig
from dpsim.strategy.aggregation.setting import Setting
from dpsim.strategy.aggregation.sharded_gradients import GradientsConfig
from dpsim.strategy.aggregation.units import Unit, owned, units_of, units_of_blocks
from dpsim.topology import GroupSize, Mesh
from dpsim.workload import Model, Program

_HALF = 2  # bytes of a gradient as it is computed
_REPLICAS = "all-reduce-replicas"


class ShardedConfig(Aggregation):
    """Optimiser state, gradients and weights are divided among the workers."""

    # Excluded by the table of combinations: no worker holds a whole model to average.
    averaged_by: ClassVar[str] = "all-gather"
    shards: ClassVar[bool] = True
    in_groups: ClassVar[bool] = True
    also_called: ClassVar[tuple[str, ...]] = (
        "fsdp",
        "fsdp2",
        "hsdp",
        "zero",
        "zero-1",
        "zero-2",
        "zero-3",
    )

    kind: Literal["sharded"] = Field(
        description="Optimiser state, gradients and weights are divided among the workers."
    )
    stage: Literal[1, 2, 3] = Field(
        default=3,
        description="1: optimiser state is divided; 2: gradients too; 3: weights too (FSDP).",
    )
    weight_bytes: Literal[2, 4] = Field(
        default=4, description="Bytes per gathered weight, at most the bytes it is stored in."
    )
    unit_size: PositiveBytes = Field(
        default=100 * 2.0**20,
        description="Stage 3: minimum size (in fp32) of a unit of layers gathered at once.",
    )
    wrap: Literal["size", "block"] = Field(
        default="size",
        description=(
            "Stage 3: units to gather. size: successive layers up to unit_size; block: each block "
            "of the model, as FSDP wraps transformers, with its gradients sent as one."
        ),
    )
    prefetch: NonNegativeInt = Field(
        default=1, le=1000, description="Stage 3: number of units that are gathered ahead."
    )
    backward_prefetch: Literal["pre", "post", "none"] = Field(
        default="pre",
        description=(
            "Stage 3, start of the next gather in backward passes (torch's BackwardPrefetch). "
            "pre: prefetch units ahead; post: after the previous unit, before its gradients are "
            "sent; none: after its gradients."
        ),
    )
    limit_all_gathers: bool = Field(
        default=True,
        description=(
            "Stage 3: a gather waits until a unit is freed (torch's rate limiter). false: the "
            "host runs ahead and gathers weights as early as possible, which takes more memory."
        ),
    )
    library: Literal["auto", "ideal", "nccl", "gloo", "mpi"] = Field(
        default="auto",
        description=(
            "Library that runs reduce-scatter and all-gather; auto: nccl on NVIDIA and AMD (RCCL) "
            "GPUs, otherwise ideal."
        ),
    )

    shard_group: GroupSize = Field(
        default="all",
        description=(
            "Workers that share one copy of the model. all: all workers, or each sync.group if "
            "set; node: the workers of a node (hybrid sharding); or a number of workers. Groups "
            "hold replicas and all-reduce their shards."
        ),
    )
    reshard_after_forward: bool = Field(
        default=True,
        description=(
            "Stage 3: true frees weights after each forward pass and gathers them again for "
            "backward; false keeps them."
        ),
    )
    owners: Literal["slices", "tensors"] = Field(
        default="slices",
        description=(
            "Stages 1 and 2: division of the update. slices: each worker updates a part of every "
            "tensor, and one all-gather collects them; tensors: each owns whole tensors (assigned "
            "largest first to the least loaded worker) and broadcasts them one by one (InternEvo, "
            "Colossal-AI)."
        ),
    )
    gradients: GradientsConfig = Field(
        default=GradientsConfig(),
        description="Data type, collective and accumulation of gradients.",
    )

    offload: OffloadConfig = Field(
        default=OffloadConfig(), description="State kept in host memory instead of GPU memory."
    )

    @field_validator("backward_prefetch", mode="before")
    @classmethod
    def _accept_torch_names(cls, when: object) -> object:
        """Return torch's BACKWARD_PRE as "pre"."""
        return when.lower().removeprefix("backward_") if isinstance(when, str) else when

    @field_validator("stage", mode="before")
    @classmethod
    def _check_stage(cls, stage: object) -> object:
        if stage in (0, "0"):
            raise ValueError(
                "must be 1, 2 or 3, since stage 0 divides nothing and is "
                f"strategy.aggregation: {{kind: allreduce}}, but got {stage}"
            )
        return stage

    @model_validator(mode="after")
    def _check_gradient_collective(self) -> Self:
        # An all-reduce leaves whole gradients on each worker, but these stages divide them.
        if self.stage > 1 and self.gradients.collective == "all-reduce":
            raise ValueError(
                "gradients.collective must be reduce-scatter where they are divided (stage "
                f"{self.stage}), but got 'all-reduce'"
            )
        return self

    @model_validator(mode="after")
    def _check_offloaded_parameters(self) -> Self:
        if self.stage < 3 and self.offload.parameters != "none":
            raise ValueError(
                "offload.parameters must be none where each worker keeps all weights (stage "
                f"{self.stage}), but got {self.offload.parameters!r}"
            )
        return self

    @property
    def offloading(self) -> OffloadConfig:  # type: ignore[override]
        return self.offload

    @property
    def shards_in_part(self) -> bool:  # type: ignore[override]
        """Whether shards are divided in groups that each hold a full replica."""
        return self.shard_group != "all"

    def between_groups(self) -> Aggregation:
        """Return an all-reduce of each shard with its replicas, by the same library."""
        from dpsim.strategy.aggregation.allreduce import AllReduceConfig

        return AllReduceConfig(kind="allreduce", library=self.library)

    @property
    def units_ahead(self) -> int | None:  # type: ignore[override]
        """Units gathered ahead; None for all, if gathers do not wait for units to be freed."""
        frees = self.limit_all_gathers and self.reshard_after_forward
        return self.prefetch if frees else None

    @property
    def sharding_stage(self) -> int:  # type: ignore[override]
        return self.stage

    def shard_size(self, mesh: Mesh) -> int:
        """Return the number of workers in a shard group."""
        return mesh.size(self.shard_group, "strategy.aggregation.shard_group")

    @property
    def reduces_each_pass(self) -> bool:  # type: ignore[override]
        """Whether each pass reduces gradients; otherwise they add up over a step's passes."""
        return self.gradients.sync_each_pass

    def host_copies(self, model: Model, mesh: Mesh) -> HostCopies:
        """Return shards of weights before each unit's passes, and of gradients after backward."""
        shards = self.shard_size(mesh)
        forward, backward, gradients = np.zeros((3, len(model.layers)))
        if self.offload.optimizer != "none":
            gradients = self.gradients.width(model) * model.vector("trained_weights") / shards
        for first, after, elements in (
            self.units(model) if self.offload.parameters != "none" else ()
        ):
            forward[first] = elements * self._gathered(model) / shards
            if self.reshard_after_forward and after > model.first_trained:
                backward[after - 1] = forward[first]
        return HostCopies(forward, backward, gradients)

    def copied_bytes(self, model: Model) -> tuple[float, float]:
        """Return the bytes that write gathered weights, and that copy gradients into one buffer.

        The copy reads and writes gradients in half precision; a cast to the format in which they
        are sent reads and writes them again.
        """
        width = self.gradients.width(model)
        cast = width + _HALF if width != _HALF else 0
        gradients = (2.0 * _HALF + cast) * model.trained
        if self.stage < 3:
            return 0.0, gradients
        # Weights that backward gathers again are written again.
        weights = float(self._gathered(model) * model.parameters)
        again = weights if self.reshard_after_forward else 0.0
        return weights, again + gradients

    def _gathered(self, model: Model) -> int:
        """Return the bytes of a gathered weight, at most the bytes of a stored one."""
        return min(self.weight_bytes, model.parameter_bytes)

    @property
    def _has_owners(self) -> bool:
        """Whether each tensor is updated as a whole by one owner."""
        return self.stage < 3 and self.owners == "tensors"

    def updated_part(self, model: Model, mesh: Mesh) -> float:
        """Return a worker's share; if tensors have owners, the largest owner's."""
        if not self._has_owners:
            return super().updated_part(model, mesh)
        # The worker with the most sets the pace: the others wait for its tensors at the next step's
        # start.
        most = max(owned(model, self.shard_size(mesh)), default=0)
        return most / max(model.trained, 1)

    def calls(self, model: Model, program: Program, batch: int, mesh: Mesh) -> Calls:
        """Return reduce-scatters of gradients, and all-gathers of weights.

        Weights are gathered at the start of a step, in stage 3 before each unit's passes. If
        tensors have owners, each owner broadcasts its own.
        """
        scatters = self._scatters(model, program)
        if self.stage == 3:
            return (*self._gathers(model, program), *scatters)
        # Weights are complete between steps: each worker sends the part that it updated once.
        if self._has_owners:
            parts, collective, name = owned(model, self.shard_size(mesh)), "broadcast", "owner"
        else:
            parts, collective, name = [model.trained], "all-gather", "weights"
        sizes = [elements * self._gathered(model) for elements in parts]
        sent = [CollectiveCall(name, size, 0, 0, collective, "weights") for size in sizes]
        return (*sent, *scatters)

    def collectives(self, setting: Setting) -> Mapping[str, Turns]:
        """Return a reduce-scatter and all-gather in each shard group, and the replicas' all-reduce.

        With ``gradients.collective: all-reduce``, an all-reduce by all workers replaces the first
        and the last. If tensors have owners, their broadcasts are added.
        """
        ranks, size = setting.mesh.ranks, self.shard_size(setting.mesh)
        from dpsim.collectives import Groups

        inside = None if size == ranks else Groups(size)
        reduction = self.gradients.collective
        library, _ = setting.library_for(self.library, "auto", reduction, inside)
        timed = partial(setting.timed, default_algorithm(library), library=library)
        found: dict[str, Turns] = {"all-gather": (timed("all-gather", groups=inside),)}
        if self._has_owners:
            # Pipelined along a ring, a broadcast takes as long as a ring all-gather of the same
            # bytes: as many hops until the first byte arrives, and as many bytes on each link.
            chain = "broadcast" if TRAITS[library].broadcasts_in_groups else "all-gather"
            found["broadcast"] = (timed(chain, groups=inside),)
        if reduction == "all-reduce":
            return {**found, reduction: (timed(reduction),)}
        found[reduction] = (timed(reduction, groups=inside),)
        if size < ranks:
            found[_REPLICAS] = (timed("all-reduce", groups=Groups(size, across=True)),)
        return found

    def stages(self, collective: str, sent: Sent, mesh: Mesh) -> Stages:
        """Return a reduce-scatter in the group, then an all-reduce among each shard's replicas."""
        carried = tuple((collective, nbytes) for nbytes in sent.encoded)
        size = self.shard_size(mesh)
        if collective != "reduce-scatter" or size == mesh.ranks:
            return carried
        return carried + tuple((_REPLICAS, math.ceil(nbytes / size)) for nbytes in sent.encoded)

    def communicator(self, collective: str) -> Group:
        """Return the communicator; replicas have their own, like FSDP's all-reduce stream."""
        return "replicas" if collective == _REPLICAS else "all"

    def startup(self, model: Model, state_bytes: int, setting: Setting) -> float:
        """Return the seconds to broadcast weights (scatter in stage 3) and scatter the state."""
        workers = setting.cluster.ranks
        if workers == 1:
            return 0.0
        weights = min(model.parameters * model.parameter_bytes, state_bytes)
        whole = weights if self.stage < 3 else 0
        parts = state_bytes - whole
        start = np.zeros(workers)
        broadcast = scattered = 0.0
        if whole:
            broadcast = float(setting.broadcast().finish(start, whole).finishes.max())
        if parts:
            model_of_parts = setting.timed("tree", "scatter")
            scattered = float(model_of_parts.finish(start, parts).finishes.max())
        return broadcast + scattered

    def _scatters(self, model: Model, program: Program) -> Calls:
        """Return the reductions of gradients: of each tensor, or of each block."""
        width, each_pass = self.gradients.width(model), self.gradients.sync_each_pass
        if self.stage < 3 or self.wrap == "size":
            collective = self.gradients.collective
            return gradients(model, program, collective, width=width, each_pass=each_pass)
        calls = []
        # Without a reduction in each pass, gradients add up and are sent after the last pass.
        for number in range(program.passes) if each_pass else (program.last,):
            # In backward order: a unit is ready when the gradient of its first layer is.
            for index, (first, after, _) in reversed([*enumerate(self.units(model))]):
                trained = sum(layer.trained_weights for layer in model.layers[first:after])
                if not trained:
                    continue
                name, nbytes = f"unit{index}-gradients", trained * width
                ready, end = program.after_backward(number, first), program.end
                calls.append(
                    CollectiveCall(name, nbytes, ready, end, "reduce-scatter", width=width)
                )
        return tuple(calls)

    def _gathers(self, model: Model, program: Program) -> Calls:
        """Return the all-gathers of the units in every pass.

        They run in order for the forward pass, and in reverse for the backward pass if weights are
        freed in between.
        """
        units = self.units(model)
        gathers: list[CollectiveCall] = []
        for number in range(program.passes):
            forward = [
                (program.before_forward(number, first), f"unit{index}", elements)
                for index, (first, _, elements) in enumerate(units)
            ]
            back = [
                (program.before_backward(number, after - 1), f"unit{index}-again", elements)
                for index, (_, after, elements) in reversed([*enumerate(units)])
                if after > model.first_trained
            ]
            gathers_of_pass = forward + back if self.reshard_after_forward else forward
            all_needed = [needed for needed, *_ in gathers_of_pass]
            for index, (needed, name, elements) in enumerate(gathers_of_pass):
                ready = self._triggered_at(index, all_needed, len(forward))
                size = elements * self._gathered(model)
                first = index > len(forward) and self.backward_prefetch == "post"
                call = CollectiveCall(
                    name, size, ready, needed, "all-gather", "weights", overtakes=first
                )
                gathers.append(call)
        return tuple(gathers)

    def _triggered_at(self, index: int, needed: list[int], forward: int) -> int:
        """Return the position that triggers gather ``index``; the first ``forward`` are forward's.

        Usually it is triggered when the unit ``prefetch`` before it is about to compute, so that
        ``prefetch`` more units are in memory (FSDP's forward_prefetch and BACKWARD_PRE).
        """
        if index > forward and self.backward_prefetch != "pre":
            return needed[index]
        # Without a limit the host issues all gathers of a pass together with the first one.
        ahead = self.prefetch if self.limit_all_gathers else index
        return needed[max(index - ahead, 0)]

    def units(self, model: Model) -> list[Unit]:
        """Return the runs of layers that are gathered together."""
        return units_of_blocks(model) if self.wrap == "block" else units_of(model, self.unit_size)
