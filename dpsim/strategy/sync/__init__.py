"""Synchronisation of workers: who takes part in a step, and who waits for whom."""

from typing import Annotated

from pydantic import Field

from dpsim.strategy.sync.asp import AspConfig
from dpsim.strategy.sync.backup import BackupConfig
from dpsim.strategy.sync.bsp import BspConfig
from dpsim.strategy.sync.gate import DROPPED, BarrierGate, Gate, GradientOutcome, QuorumGate
from dpsim.strategy.sync.local_sgd import LocalSgdConfig
from dpsim.strategy.sync.outer_step import OuterConfig
from dpsim.strategy.sync.sma import SmaConfig
from dpsim.strategy.sync.ssp import SspConfig, StalenessGate
from dpsim.strategy.sync.sync import Exchanged, Sync

SyncConfig = Annotated[
    BspConfig | BackupConfig | SspConfig | AspConfig | LocalSgdConfig | SmaConfig,
    Field(discriminator="kind"),
]

__all__ = [
    "DROPPED",
    "AspConfig",
    "BackupConfig",
    "BarrierGate",
    "BspConfig",
    "Exchanged",
    "Gate",
    "GradientOutcome",
    "LocalSgdConfig",
    "OuterConfig",
    "QuorumGate",
    "SmaConfig",
    "SspConfig",
    "StalenessGate",
    "Sync",
    "SyncConfig",
]
