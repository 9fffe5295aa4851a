"""The catalogue of models: one file per family of architectures, each a few calls of the builder."""

from dpsim.workload.models.catalogue import MODELS, Images, Tokens, build_model, canonical_name
from dpsim.workload.models.hf_config import from_config

__all__ = ["MODELS", "Images", "Tokens", "build_model", "canonical_name", "from_config"]
