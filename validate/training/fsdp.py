"""torch's FSDP2: weights, gradients and the optimiser's state sharded over workers.

Runs of blocks are gathered together, like a scenario's units. Source: Zhao et al., "PyTorch FSDP",
VLDB 16, 2023; ``torch.distributed.fsdp.fully_shard``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any, ClassVar, Literal

import torch
from pydantic import Field, PositiveInt
from torch import nn

from dpsim.base.errors import DpsimError
from dpsim.base.units import PositiveBytes
from validate.training.method import Method, silent_group
from validate.training.task import Task
from validate.training.worker import Worker

_FORMATS = {"fp32": None, "bf16": torch.bfloat16}  # None: unchanged

_SHARE = 0.25
_TORCH = tuple(int(part) for part in torch.__version__.split(".")[:2])


class Fsdp(Method):
    """torch's fully_shard over the blocks of the model."""

    divides: ClassVar[bool] = True
    kind: ClassVar[str] = "fsdp"
    flat: ClassVar[bool] = False
    overlaps_communication: ClassVar[bool] = True
    reshard: bool = Field(
        default=True,
        description="Weights are freed after each forward pass and gathered again for backward.",
    )
    group: PositiveInt | None = Field(
        default=None, description="Workers that divide a model; all of them if left out."
    )
    unit_size: PositiveBytes = Field(
        default=100 * 2.0**20,
        description="Minimum size of a unit of blocks that is gathered at once.",
    )
    weights: Literal["fp32", "bf16"] = Field(
        default="fp32", description="Data type in which weights are gathered and used."
    )
    gradients: Literal["fp32", "bf16"] = Field(
        default="fp32", description="Data type in which gradients are reduce-scattered."
    )
    sync_each_pass: bool = Field(
        default=False,
        description="Gradients are reduce-scattered after every pass, not only after the last.",
    )

    def workers(self, ranks: int) -> int:
        """Return all ranks; raises DpsimError if groups do not divide them evenly."""
        if self.group is not None and ranks % self.group:
            raise DpsimError(f"fsdp: group must divide the {ranks} ranks, but got {self.group}")
        return ranks

    def run(self, worker: Worker) -> None:
        """Train; gathers and scatters overlap with passes; their exposed time is in compute."""
        model: Any = worker.replica.model
        self.divide(model, worker.task, self._mesh(worker))
        for step in worker.steps():
            worker.compute_gradient(step, model, lambda: self._without_sync(model))
            worker.update()

    def computing_step(self, worker: Worker) -> Callable[[], None]:
        """Return a step in a group that sends nothing: gathers copy the rank's own part."""
        from torch.distributed.device_mesh import DeviceMesh

        group = silent_group(worker, self.group or worker.workers)
        mesh = DeviceMesh.from_group(group, worker.world.device.type)
        model: Any = worker.replica.model
        self.divide(model, worker.task, mesh)
        batch = worker.task.batch(torch.empty(0))

        def step() -> None:
            worker.replica.compute_gradient(*batch, model, lambda: self._without_sync(model))
            worker.replica.update()

        return step

    def _mesh(self, worker: Worker) -> Any:
        from torch.distributed.device_mesh import DeviceMesh, init_device_mesh

        kind, ranks = worker.world.device.type, worker.workers
        if self.group is None or self.group == ranks:
            # From the run's own group: torch would make an NCCL one for GPUs whose backend is gloo.
            return DeviceMesh.from_group(worker.world.group, kind)
        # fully_shard shards over the last dimension and replicates over the first: HSDP.
        shape = (ranks // self.group, self.group)
        return init_device_mesh(kind, shape, mesh_dim_names=("replicas", "shards"))

    def divide(self, model: nn.Module, task: Task, mesh: Any) -> None:
        """Shard the units of ``model``, then the rest of it.

        Each unit gets its weights just before it is sharded: no rank ever holds two whole units.
        """
        try:
            from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
        except ImportError:  # before torch 2.6
            from torch.distributed._composable.fsdp import MixedPrecisionPolicy, fully_shard

        policy = MixedPrecisionPolicy(
            param_dtype=_FORMATS[self.weights],
            reduce_dtype=_FORMATS[self.gradients],
        )
        shard = partial(fully_shard, mesh=mesh, mp_policy=policy)
        # Omitted where torch chooses: for the root, which backward needs first, each version has
        # its own default, and an explicit value gathers it twice.
        kept = {} if self.reshard else {"reshard_after_forward": False}
        for unit in units(model, self.unit_size):
            if len(unit) > 1 and _TORCH < (2, 5):
                raise DpsimError(
                    "strategy.aggregation.unit_size: must be at most a block's bytes with torch "
                    f"before 2.5, which gathers blocks one by one, but got {self.unit_size:,.0f} B"
                )
            for block in unit:
                task.fill(block)
            # Pass a single block alone, since torch before 2.5 takes no lists.
            shard(unit if len(unit) > 1 else unit[0], **kept)
        # The rest (embeddings, the head) forms one more unit, which the root gathers.
        task.fill(model)
        shard(model, **kept)

    @contextmanager
    def _without_sync(self, model: Any) -> Iterator[None]:
        """Run a pass before the last: gradients stay whole unless they are scattered each time."""
        model.set_requires_gradient_sync(self.sync_each_pass)
        yield
        model.set_requires_gradient_sync(True)


def units(model: nn.Module, least: float) -> list[list[nn.Module]]:
    """Return runs of the model's blocks with at least ``least`` bytes of weights each, in order."""
    runs: list[list[nn.Module]] = [[]]
    size = 0
    for block in blocks_of(model):
        runs[-1].append(block)
        size += sum(parameter.nbytes for parameter in block.parameters())
        if size >= least:
            runs.append([])
            size = 0
    return [unit for unit in runs if unit]


def blocks_of(model: nn.Module) -> list[nn.Module]:
    """Return the model's repeated parts: the children with weights of its longest sequence.

    Sequences with less than a quarter of the model's weights are ignored: they are within a part.
    """
    whole = _weights(model)
    sequences = [
        part for part in model.modules() if isinstance(part, (nn.Sequential, nn.ModuleList))
    ]
    large = [part for part in sequences if _weights(part) >= _SHARE * whole]
    # Among equally long ones, max takes the outermost, which comes first.
    longest = max(large, key=len, default=None)
    return [] if longest is None else [block for block in longest if _weights(block)]


def _weights(part: nn.Module) -> int:
    return sum(parameter.numel() for parameter in part.parameters())
