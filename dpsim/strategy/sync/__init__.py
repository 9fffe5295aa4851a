"""Synchronisation of workers: who takes part in a step, and who waits for whom."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from dpsim.base.kinds import Kinds
from dpsim.base.lazy import on_demand
from dpsim.strategy.sync.bsp import BspConfig
from dpsim.strategy.sync.gate import DROPPED, BarrierGate, Gate, GradientOutcome, QuorumGate
from dpsim.strategy.sync.sync import Exchanged, Sync

if TYPE_CHECKING:
    from dpsim.strategy.sync.asp import AspConfig
    from dpsim.strategy.sync.backup import BackupConfig
    from dpsim.strategy.sync.local_sgd import LocalSgdConfig
    from dpsim.strategy.sync.outer_step import OuterConfig
    from dpsim.strategy.sync.sma import SmaConfig
    from dpsim.strategy.sync.ssp import SspConfig, StalenessGate

    SyncConfig = Sync
else:
    __getattr__, __dir__ = on_demand(__name__, __file__)
    # As they are listed; a new one is found by the name of its file.
    _ORDER = ("bsp", "backup", "ssp", "asp", "local-sgd", "sma")
    SyncConfig = Annotated[object, Kinds("kind", __name__, _ORDER)]

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
