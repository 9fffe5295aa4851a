"""A rank of `validate.node.plan_runner` on a stand-in for a GPU, which fails as configured.

DPSIM_FAILS is ``RANK ITEM HOW``: the rank fails in the middle of the item of that name.
"""

import os
import sys
import time

import pytest
import torch
from fake_cuda import small_products, stand_in
from fake_gpu_ranks import nccl_by_gloo, without_pinning

from validate.node.items import Item, as_rank
from validate.ranks.processes import leave

NCCL = """NCCL error in: ../torch/csrc/distributed/c10d/NCCLUtils.cpp:94, unhandled system error
ncclSystemError: System call (e.g. socket, malloc) or external library call failed or device error.
Last error:
Call to ibv_modify_qp failed with error Connection timed out
"""


def die():
    os.kill(os.getpid(), 9)


def nccl():
    raise RuntimeError(NCCL)


def full():
    raise torch.cuda.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB.\nGPU 0 has")


def hang():
    time.sleep(3600)


WAYS = {each.__name__: each for each in (die, nccl, full, hang)}


def main():
    patch = pytest.MonkeyPatch()
    stand_in(patch, uuids=("GPU-a", "GPU-b"))
    nccl_by_gloo(patch, [])
    without_pinning(patch)
    small_products(patch)
    rank, item, how = os.environ.get("DPSIM_FAILS", "9 none hang").split()
    measure = Item.measure

    def failing(self, world, report):
        made = []
        if (str(world.rank), self.name) != (rank, item):
            measure(self, world, report)
            return

        def reported(row):
            report(row)
            made.append(row)
            if len(made) == 2:
                WAYS[how]()

        measure(self, world, reported if world.rank == 0 else lambda row: None)
        # Only rank 0 reports: another one fails at the item's end, where the first waits for it.
        WAYS[how]()

    patch.setattr(Item, "measure", failing)
    try:
        as_rank(sys.argv[1])
    except Exception as error:
        leave(error)


if __name__ == "__main__":
    main()
