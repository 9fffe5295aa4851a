"""Trains a model on all ranks of a world by one method."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch.distributed as dist
from torch import nn

from dpsim.base.registry import Registry
from validate.ranks.processes import World
from validate.training.averages import Library, Scheduled, ThroughHost
from validate.training.backup import Backup
from validate.training.buckets import Buckets
from validate.training.compressed import Compressed
from validate.training.fsdp import Fsdp
from validate.training.gossip import Gossip
from validate.training.learners import Learners
from validate.training.local_sgd import LocalSgd
from validate.training.method import Method
from validate.training.pairs import AdPsgd
from validate.training.parameter_server import ParameterServer
from validate.training.rank_record import RankRecord
from validate.training.references import DataParallel, Ddp, WholeBatch, ZeroOne
from validate.training.settings import Training
from validate.training.task import Task
from validate.training.worker import Worker

METHODS: Registry[type[Method]] = Registry(
    "method of training",
    {
        each.kind: each
        for each in (
            WholeBatch,
            DataParallel,
            Ddp,
            Fsdp,
            ZeroOne,
            ThroughHost,
            Scheduled,
            Library,
            Buckets,
            ParameterServer,
            Backup,
            LocalSgd,
            Gossip,
            AdPsgd,
            Learners,
            Compressed,
        )
    },
)


def method_named(kind: str, **settings: Any) -> Method:
    """Return the method of that name, with its settings.

    Raises DpsimError for an unknown name, or pydantic's error for an invalid setting.
    """
    return METHODS[kind].model_validate(settings)


def train(
    chosen: Method | str,
    world: World,
    training: Training | None = None,
    task: Task | None = None,
) -> RankRecord:
    """Train by ``chosen``, and return this rank's record; every rank of ``world`` must call this.

    ``task`` is the model to train, by default the digits. If the machine lacks what the method
    needs, nothing is run, and the record has the reason. Raises DpsimError if there are too few
    ranks for the method or too few samples for the workers.
    """
    how = method_named(chosen) if isinstance(chosen, str) else chosen
    if missing := how.missing():
        return RankRecord(how.kind, world.rank, world.size, not_run=missing)
    worker = _worker(how, world, training, task, via_host_memory=how.via_host_memory)
    if any(parameter.is_meta for parameter in worker.replica.model.parameters()):
        assert how.divides, "an outline is filled, alike on all ranks, by who divides it"
    else:
        # If the model is not flat, its optimiser is made later, when a library has sharded it.
        replicate(worker.replica.model, worker.replica.optimiser if how.flat else None, world.group)
    how.run(worker)
    return worker.done()


def replicate(model: nn.Module, optimiser: Any = None, group: Any = None) -> None:
    """Broadcast rank 0's parameters and buffers, and its optimiser's state, to all of ``group``."""
    for tensor in (*model.parameters(), *model.buffers()):
        dist.broadcast(tensor.detach(), src=0, group=group)
    if optimiser is not None:
        state = [optimiser.state_dict()]
        dist.broadcast_object_list(state, src=0, group=group)
        optimiser.load_state_dict(state[0])


def computing_step(
    how: Method, world: World, training: Training, task: Task | None = None
) -> Callable[[], None]:
    """Return a step of a worker's computing without communication; all workers must call this."""
    return how.computing_step(_worker(how, world, training, task, via_host_memory=False))


def _worker(
    how: Method,
    world: World,
    training: Training | None,
    task: Task | None,
    *,
    via_host_memory: bool,
) -> Worker:
    return Worker(
        training or Training(),
        world,
        how.workers(world.size),
        how.kind,
        task,
        flat=how.flat,
        divides=how.divides,
        via_host_memory=via_host_memory,
    )
