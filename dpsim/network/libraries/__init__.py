"""Collectives as real libraries run them: NCCL, gloo and MPI."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dpsim.base.lazy import on_demand
from dpsim.network.libraries.library import (
    LIBRARIES,
    TRAITS,
    AutomaticLibrary,
    Library,
    automatic_library,
    chooses,
    default_algorithm,
    library_model,
    name_for_users,
)

if TYPE_CHECKING:
    from dpsim.network.libraries.gloo import GlooModel, segment_count
    from dpsim.network.libraries.mpi import MpiModel
else:
    __getattr__, __dir__ = on_demand(__name__, __file__)

__all__ = [
    "LIBRARIES",
    "TRAITS",
    "AutomaticLibrary",
    "GlooModel",
    "Library",
    "MpiModel",
    "automatic_library",
    "chooses",
    "default_algorithm",
    "library_model",
    "name_for_users",
    "segment_count",
]
