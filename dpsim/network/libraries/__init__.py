"""Collectives as real libraries run them: NCCL, gloo and MPI."""

from dpsim.network.libraries.gloo import GlooModel, segment_count
from dpsim.network.libraries.library import LIBRARIES, Library, library_model
from dpsim.network.libraries.mpi import MpiModel

__all__ = [
    "LIBRARIES",
    "GlooModel",
    "Library",
    "MpiModel",
    "library_model",
    "segment_count",
]
