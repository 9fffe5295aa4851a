"""The catalogue of models: one file per family."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dpsim.base.lazy import on_demand
from dpsim.workload.models.built import ATTENTION_OF, Attention, Images, Tokens
from dpsim.workload.models.catalogue import (
    MODELS,
    FamilyModel,
    build_model,
    canonical_name,
    known_model,
)

if TYPE_CHECKING:
    from dpsim.workload.models.hf_config import from_config
    from dpsim.workload.models.llama import Llama
else:
    __getattr__, __dir__ = on_demand(__name__, __file__)

__all__ = [
    "ATTENTION_OF",
    "MODELS",
    "Attention",
    "FamilyModel",
    "Images",
    "Llama",
    "Tokens",
    "build_model",
    "canonical_name",
    "from_config",
    "known_model",
]
