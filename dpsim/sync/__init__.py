"""When workers meet: who takes part in a step, and who waits for whom."""

from typing import Annotated

from pydantic import Field

from dpsim.sync.asp import AspConfig
from dpsim.sync.backup import BackupConfig
from dpsim.sync.bsp import BspConfig
from dpsim.sync.local_sgd import LocalSgdConfig
from dpsim.sync.sma import SmaConfig
from dpsim.sync.ssp import SspConfig
from dpsim.sync.sync import Meeting, Sync

SyncConfig = Annotated[BspConfig | BackupConfig | SspConfig | AspConfig | LocalSgdConfig | SmaConfig, Field(discriminator="kind")]

__all__ = [
    "AspConfig",
    "BackupConfig",
    "BspConfig",
    "LocalSgdConfig",
    "Meeting",
    "SmaConfig",
    "SspConfig",
    "Sync",
    "SyncConfig",
]
