"""A way to synchronise that nobody but this file knows: the first k gradients of an update count.

It is `backup` with b = m - k, wherever workers meet: over an all-reduce, at simulated servers, at
emulated ones, and at those that train.
"""

from typing import Annotated, Literal

import numpy as np
import pytest
from pydantic import Field, PositiveInt, create_model

from dpsim import simulate
from dpsim.engine import prepare
from dpsim.engine.steps import Steps
from dpsim.strategy import StrategyConfig, refusal
from dpsim.strategy.sync import DROPPED, BackupConfig, Gate, QuorumGate, Sync

WORKERS, COUNT = 5, 3
UNEVEN = {"jitter": {"kind": "gamma", "cv": 0.4}, "slow": [{"workers": [4], "factor": 3}]}


class FirstConfig(Sync):
    """The first few gradients of an update count, the rest are dropped."""

    kind: Literal["first"] = Field(description="The first few gradients of an update count.")
    count: PositiveInt = Field(default=1, description="k: how many gradients make an update.")

    def gate(self, workers: int) -> Gate:
        """Those that come later find their update made."""
        return QuorumGate(workers, self.count, drops=True)


WITH_FIRST = create_model(
    "StrategyConfig",
    __base__=StrategyConfig,
    sync=(Annotated[BackupConfig | FirstConfig, Field(discriminator="kind")], ...),
)
FIRST = {"kind": "first", "count": COUNT}
BACKUP = {"kind": "backup", "backups": WORKERS - COUNT}


@pytest.fixture
def first_and_backup(tiny):
    """The same scenario with both."""

    def make(aggregation, **more):
        backup = tiny(
            WORKERS,
            1e-3,
            aggregation=aggregation,
            sync=BACKUP,
            run={"steps": 12},
            disturbance=UNEVEN,
            **more,
        )
        strategy = backup.strategy.model_dump(mode="json") | {"sync": FIRST}
        first = backup.model_copy(update={"strategy": WITH_FIRST.model_validate(strategy)})
        return first, backup

    return make


@pytest.mark.parametrize("overlap", ["sequential", "wfbp"])
@pytest.mark.parametrize("aggregation", ["allreduce", "parameter-server"])
def test_the_first_k_are_all_but_m_less_k_backups(first_and_backup, aggregation, overlap):
    found, expected = (
        simulate(scenario).steps for scenario in first_and_backup(aggregation, overlap=overlap)
    )
    assert (expected.versions == DROPPED).any()
    for part in Steps.__dataclass_fields__:
        np.testing.assert_array_equal(getattr(found, part), getattr(expected, part))


@pytest.mark.parametrize("aggregation", ["gossip", "host", "sharded"])
def test_what_backup_does_not_go_with_first_does_not_either(aggregation):
    parts = StrategyConfig.model_validate({"aggregation": {"kind": aggregation}})
    first, backup = (
        parts.model_copy(update={"sync": sync})
        for sync in (FirstConfig(**FIRST), BackupConfig(**BACKUP))
    )
    assert refusal(first) == refusal(backup).replace("backup", "first")


def test_different_updates_than_plain_training_are_noted():
    assert FirstConfig(**FIRST).difference


@pytest.mark.torch
def test_emulated_servers_keep_its_rule(first_and_backup):
    from validate.emulate.servers import Server

    replies = []
    for scenario in first_and_backup("parameter-server"):
        server = Server(prepare(scenario))
        for worker in range(WORKERS):
            server.keeper.hand_over(worker)
        replies.append([server.release(worker) for worker in range(WORKERS)])
    assert replies[0] == replies[1]
    assert [staleness for staleness, _ in replies[0]] == [0] * COUNT + [DROPPED] * (WORKERS - COUNT)


@pytest.mark.torch
def test_servers_that_train_keep_its_rule():
    import torch

    from validate.training.parameter_server import ServerState

    logs = []
    for sync in (FirstConfig(**FIRST), BackupConfig(**BACKUP)):
        log = []
        state = ServerState(
            torch.zeros(1),
            WORKERS,
            sync.gate(WORKERS),
            lambda *event, log=log: log.append(event),
            lambda clock, version: version == 4,
        )
        for worker in np.random.default_rng(0).permutation(WORKERS).tolist():
            state.push(worker, torch.full((1,), float(worker)))
        logs.append((log, state.weights.tolist()))
    assert logs[0] == logs[1]
    assert any(event[0] == "dropped" for event in logs[0][0])
