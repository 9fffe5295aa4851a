"""What a scenario's ``workload`` may say."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, ValidationInfo, field_validator

from dpsim.config import Config
from dpsim.workload.layer import Model
from dpsim.workload.models import MODELS, build_model, canonical_name
from dpsim.workload.roofline import Optimizer, Precision


class MemoryInput(Config):
    """Samples are on the GPU already: input costs nothing."""

    kind: Literal["memory"] = Field("memory", description="samples wait in GPU memory")


class WorkloadConfig(Config):
    """What each GPU computes in a step."""

    model: str = Field(description=f"a model of the catalogue: {', '.join(MODELS)}", examples=["resnet50"])
    batch_per_gpu: int = Field(ge=1, description="samples per GPU and step")
    precision: Precision = Field("fp32", description="of the matrix products; fp16 and bf16 are mixed precision with fp32 weights")
    sequence_length: int | None = Field(
        None,
        validate_default=False,
        description="tokens per sample; for models of text only, 128 for BERT and 1,024 for GPT-2 if left out",
    )
    optimizer: Optimizer = Field("momentum", description="decides the memory traffic of the update")
    input: MemoryInput = Field(MemoryInput(), description="where samples come from")

    @field_validator("model")
    @classmethod
    def _known(cls, name: str) -> str:
        return canonical_name(name)

    @field_validator("sequence_length")
    @classmethod
    def _fits(cls, length: int | None, info: ValidationInfo) -> int | None:
        if "model" in info.data:
            MODELS[info.data["model"]].check(length)
        return length

    def build(self) -> Model:
        """The model it names."""
        return build_model(self.model, self.sequence_length)
