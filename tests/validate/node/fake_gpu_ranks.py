"""Three ranks, each with a stand-in for a GPU, that meet by "nccl": gloo under its name.

They go through all that is measured and all ways to train, by the branches that ask for a GPU and
for NCCL. What they found is written down for the test.
"""

import json
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
import torch.distributed as dist
from fake_cuda import small_products, stand_in
from torch.nn import functional
from torch.nn.parallel import DistributedDataParallel

from validate.emulate import Case
from validate.microbench.benchmarks import BENCHMARKS, run_benchmarks
from validate.microbench.settings import Settings
from validate.node.program import carry_out
from validate.ranks.launch import report_connected
from validate.ranks.processes import joined
from validate.training import METHODS, Training, train

# torch's own splits a batch over GPUs in C++, where nothing can stand in for them.
NO_STAND_IN = ("data-parallel",)


def nccl_by_gloo(patch, requested):
    """Let "nccl" be here, and be gloo; its barrier must name a GPU, as no rank may guess it."""
    group, barrier, new_group = dist.init_process_group, dist.barrier, dist.new_group

    def named(backend, **reported):
        requested.append(("group", backend, sorted(reported)))
        group("gloo", **reported)

    def barrier_of(group=None, async_op=False, device_ids=None):
        requested.append(("barrier", device_ids))
        return barrier(group=group, async_op=async_op)

    def apart(ranks=None, backend=None, **reported):
        requested.append(("new group", backend))
        return new_group(ranks, backend=backend, **reported)

    patch.setattr(dist, "is_nccl_available", lambda: True)
    patch.setattr(dist, "init_process_group", named)
    patch.setattr(dist, "barrier", barrier_of)
    patch.setattr(dist, "new_group", apart)


def without_pinning(patch):
    """Memory that is pinned for a GPU is plain here."""
    for name in ("zeros", "empty"):
        make = getattr(torch, name)
        patch.setattr(
            torch,
            name,
            lambda *args, pin_memory=False, make=make, **reported: make(*args, **reported),
        )


def statistics_on_hosts(patch, shared):
    """SyncBatchNorm, which torch has for GPUs, on the host; ``shared`` gets its group's ranks."""

    def forward(self, images):
        shared.append(dist.get_process_group_ranks(self.process_group))
        sums = torch.stack([images.mean((0, 2, 3)), images.square().mean((0, 2, 3))]).detach()
        dist.all_reduce(sums, group=self.process_group)
        mean, square = sums / len(shared[-1])
        return functional.batch_norm(images, mean, square - mean**2, self.weight, self.bias)

    patch.setattr(torch.nn.SyncBatchNorm, "forward", forward)
    # DDP refuses such layers where tensors are on the host.
    patch.setattr(DistributedDataParallel, "_passing_sync_batchnorm_handle", lambda *reported: None)


def measured(world):
    """The rows of every benchmark, of every collective, and of one schedule as NCCL's groups."""
    library = Settings(
        what=tuple(BENCHMARKS),
        begin=1024,
        end=1024,
        operations=("all",),
        iterations=1,
        warmup=0,
        batch_sizes=(2,),
        learners=(2,),
        at_once=True,
    )
    ring = {"what": ("collectives",), "operations": ("all-reduce",), "algorithms": ("ring",)}
    rows = []
    schedule = library.model_copy(update=ring)
    # By gloo a schedule takes the way of ranks that share a GPU: through memory of the host.
    for settings, there in (
        (library, world),
        (schedule, world),
        (schedule, replace(world, backend="gloo")),
    ):
        run_benchmarks(there, settings.checked(), rows.append, lambda *reported: None)
    return rows


def trained(world):
    weights, steps = {}, {}
    for name in METHODS:
        if name in NO_STAND_IN:
            continue
        record = train(name, world, Training(steps=2, batch=4))
        weights[name] = record.weights.tolist()
        steps[name] = len(record.step_s)
        world.barrier()
    return weights, steps


def main(folder, file, cases):
    patch, requested, shared = pytest.MonkeyPatch(), [], []
    cuda = stand_in(patch, uuids=("GPU-a", "GPU-b", "GPU-c"))
    nccl_by_gloo(patch, requested)
    without_pinning(patch)
    small_products(patch)
    statistics_on_hosts(patch, shared)
    found = {"scenarios": {}, "shared": {}}
    with joined() as world:
        report_connected()
        found |= {"backend": world.backend, "kind": world.face.kind, "gpu": world.face.identity}
        found["rows"] = measured(world)
        begun = len(requested)
        found["weights"], found["steps"] = trained(world)
        found["groups"] = [what for what in requested[begun:] if what[0] == "new group"]
        for name, (sets, compute) in cases.items():
            shared.clear()
            found["scenarios"][name] = carry_out(Case(file, tuple(sets)).job(), world, compute)
            found["shared"][name] = list(shared)
    found["requested"] = requested
    found["devices"] = sorted({each[1] for each in cuda.calls if each[0] == "device"})
    (folder / f"rank-{world.rank}").write_text(json.dumps(found, default=np.ndarray.tolist))


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], json.loads(sys.argv[3]))
