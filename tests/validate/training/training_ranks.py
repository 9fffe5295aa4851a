"""What each rank of a test's run does.

One method after another, then what the parts of training do on several ranks.
"""

import pickle
import sys
from dataclasses import dataclass
from pathlib import Path

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from validate.ranks.launch import report_connected
from validate.ranks.processes import Place, World, joined
from validate.training import Training, train
from validate.training.buckets import Reducer
from validate.training.local import Replica
from validate.training.train import replicate

BUCKET_MIB = 0.001  # small enough for several buckets


def after_replication(world):
    """A model with buffers, and an optimiser with state: trained only on rank 0, then
    replicated.
    """
    torch.manual_seed(world.rank)
    model = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4))
    optimiser = torch.optim.Adam(model.parameters(), lr=0.1 / (1 + world.rank))
    if world.rank == 0:
        model(torch.randn(5, 3)).sum().backward()
        optimiser.step()
    replicate(model, optimiser)
    return {"model": model.state_dict(), "optimiser": optimiser.state_dict()}


def buckets(world):
    """The buckets that the reducer and torch DDP cut, as places of parameters in the order in which
    their gradients were ready.

    And how many gradients were ready in the next backward pass when each of the reducer's set out.
    """
    images, labels = torch.rand(4, 1, 8, 8, dtype=torch.float64), torch.arange(4)
    ours, theirs = Replica(Training(model="transformer")), Replica(Training(model="transformer"))
    reducer = Reducer(list(ours.model.parameters()), world)
    ours.compute_gradient(images, labels)
    reducer.finish()
    reducer.rebuild(int(BUCKET_MIB * 2**20), int(BUCKET_MIB * 2**20))
    ddp = DistributedDataParallel(theirs.model, bucket_cap_mb=BUCKET_MIB)
    for _ in range(3):  # DDP tells of its new buckets in the third iteration
        theirs.compute_gradient(images, labels, ddp)
    reported = ddp._get_ddp_logging_data()["rebuilt_per_bucket_param_indices"]
    ready, start = [], reducer._start
    reducer._start = lambda bucket: (ready.append(len(reducer._arrived)), start(bucket))
    ours.compute_gradient(images, labels)
    reducer.finish()
    return (
        reducer.buckets,
        [[int(place) for place in bucket.split()] for bucket in reported.split(",")],
        ready,
    )


@dataclass(frozen=True)
class Part(World):
    """The first ranks of a world, as a world of their own."""

    members: object = None

    @property
    def group(self):
        return self.members


def trained(cases, world):
    return {name: train(chosen, world, training) for name, (chosen, training) in cases.items()}


def main(folder):
    cases, cases_of_three = pickle.loads((folder / "cases").read_bytes())
    with joined("gloo", "cpu", timeout=30) as world:
        report_connected()
        found = trained(cases, world) | {
            "replicated": after_replication(world),
            "cut": buckets(world),
        }
        members = dist.new_group([0, 1, 2])
        if world.rank < 3:
            place = Place(world.rank, 3, world.rank, 3)
            found["three"] = trained(
                cases_of_three,
                Part(place, "gloo", world.face, world.store, world.timeout, members),
            )
        (folder / f"rank-{world.rank}").write_bytes(pickle.dumps(found))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
