"""What a scenario's ``workload`` may say."""

from __future__ import annotations

from pydantic import Field, ValidationInfo, field_validator

from dpsim.base.config import Config
from dpsim.workload.dataset import DatasetConfig
from dpsim.workload.efficiency import Execution
from dpsim.workload.input import InputConfig, MemoryInput
from dpsim.workload.layer import Model
from dpsim.workload.learners import MOST_LEARNERS, UtilisationPoint, measured_time
from dpsim.workload.models import MODELS, Images, Tokens, canonical_name
from dpsim.workload.roofline import Optimizer, Precision
from dpsim.workload.source import ModelSource, one_source

MOST_PASSES = 65_536
MOST_SAMPLES = 1_000_000_000
_CHECKPOINTING = r"^(none|full|every [1-9][0-9]{0,5} layers?)$"


class WorkloadConfig(Config):
    """What each GPU computes in a step."""

    model: str | ModelSource = Field(
        description=f"a model of the catalogue, or your own. The catalogue: {', '.join(MODELS)}",
        examples=["resnet50"],
    )
    batch_per_gpu: int = Field(
        ge=1,
        le=MOST_SAMPLES,
        description="samples per GPU and pass; a step has gradient_accumulation passes",
    )
    precision: Precision = Field(
        "fp32",
        description="of the matrix products; fp16 and bf16 are mixed precision with fp32 weights",
    )
    sequence_length: int | None = Field(
        None,
        validate_default=False,
        description=(
            "tokens per sample; for models of text only, 128 for BERT and 1,024 for GPT-2 if left "
            "out"
        ),
    )
    optimizer: Optimizer = Field("momentum", description="decides the memory traffic of the update")
    execution: Execution = Field(
        "eager",
        description=(
            "eager: the host launches kernel after kernel (PyTorch); graph: compiled, with passes "
            "fused (XLA)"
        ),
    )
    gradient_accumulation: int = Field(
        1,
        ge=1,
        le=MOST_PASSES,
        description="forward and backward passes of a step; gradients are communicated in the last",
    )
    checkpointing: str = Field(
        "none",
        pattern=_CHECKPOINTING,
        description=(
            "activations computed again in backward: none, full, or 'every N layers' of which "
            "only the last output is kept"
        ),
        examples=["none", "full", "every 4 layers"],
    )
    input: InputConfig = Field(MemoryInput(kind="memory"), description="where samples come from")
    dataset: DatasetConfig | None = Field(
        None, description="the samples of an epoch; no epoch is reported if left out"
    )
    learners_per_gpu: int = Field(
        1,
        ge=1,
        le=MOST_LEARNERS,
        description="replicas of the model that share each GPU, each with a batch of its own",
    )
    utilisation: tuple[UtilisationPoint, ...] = Field(
        (),
        description=(
            "measured throughput of one learner by batch, to say how learners share a GPU; the "
            "roofline's if left out"
        ),
    )

    @field_validator("model", mode="before")
    @classmethod
    def _one_source(cls, model: object) -> object:
        return one_source(model) if isinstance(model, dict) else model

    @field_validator("model")
    @classmethod
    def _known(cls, model: str | ModelSource) -> str | ModelSource:
        return canonical_name(model) if isinstance(model, str) else model

    @field_validator("sequence_length")
    @classmethod
    def _fits(cls, length: int | None, info: ValidationInfo) -> int | None:
        if "model" in info.data:
            _entry(info.data["model"]).check(length)
        return length

    @field_validator("utilisation")
    @classmethod
    def _rising(cls, points: tuple[UtilisationPoint, ...]) -> tuple[UtilisationPoint, ...]:
        if points:
            measured_time(points)
        return points

    @property
    def samples_per_gpu(self) -> int:
        """Samples that a GPU takes in each step, those of all its learners and passes."""
        return self.batch_per_gpu * self.gradient_accumulation * self.learners_per_gpu

    @property
    def checkpoint_every(self) -> int | None:
        """Of how many layers only the last one's output is kept; None where all are."""
        if self.checkpointing == "none":
            return None
        return 1 if self.checkpointing == "full" else int(self.checkpointing.split()[1])

    def build(self) -> Model:
        """The model it names."""
        return _entry(self.model).build(self.sequence_length)


def _entry(model: str | ModelSource) -> Images | Tokens:
    return MODELS[model] if isinstance(model, str) else model.entry()
