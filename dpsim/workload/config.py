"""The ``workload`` part of a scenario."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from math import prod
from typing import Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    ConfigDict,
    Field,
    ValidationInfo,
    field_validator,
    model_validator,
)

from dpsim.base.config import Config
from dpsim.base.errors import DpsimError
from dpsim.workload.compute_constants import NARROW
from dpsim.workload.compute_times import Precision
from dpsim.workload.dataset import DatasetConfig
from dpsim.workload.input import InputConfig, MemoryInput
from dpsim.workload.layer import Model
from dpsim.workload.learners import MOST_LEARNERS, UtilisationPoint, measured_time
from dpsim.workload.models import ATTENTION_OF, MODELS, Attention, Images, Tokens, known_model
from dpsim.workload.optimizers import Optimizer
from dpsim.workload.recompute import Recompute
from dpsim.workload.software import (
    BY_TIER,
    CrossEntropy,
    Execution,
    GradientStatistics,
    Kernels,
    MemoryFormat,
    OptimizerKernels,
    Software,
    Tier,
)
from dpsim.workload.source import ModelSource
from dpsim.workload.trainable import Trainable, trained_in_part

MOST_PASSES = 65_536
MOST_SAMPLES = 1_000_000_000
MOST_BLOCKS = 100_000
_CHECKPOINTING = r"^(none|full|every [1-9][0-9]{0,5} layers?)$"
_BATCHES = ("global_batch", "batch_per_gpu", "gradient_accumulation")


class EveryBlock(Config):
    """Every k-th block is checkpointed."""

    every: int = Field(
        ge=1, le=MOST_BLOCKS, description="1: every block, 2: every second one, and so on."
    )

    @property
    def share(self) -> Fraction:
        """The checkpointed share of the blocks."""
        return Fraction(1, self.every)


class BlockFraction(Config):
    """A share of the blocks is checkpointed, evenly spread over the model."""

    fraction: float = Field(ge=0, le=1, description="Share of the blocks, from 0 to 1.")

    @property
    def share(self) -> Fraction:
        """The checkpointed share of the blocks; 0.1 is exactly a tenth."""
        return Fraction(str(self.fraction))


class MeanLength(Config):
    """The length of sequences without their padding."""

    mean_length: int = Field(ge=1, le=MOST_SAMPLES, description="Mean tokens of a sample.")


class PaddingRemoved(Config):
    """Padding is removed before the model computes."""

    removed: MeanLength = Field(description="Length of sequences without padding.")


Checkpoint = Literal["none", "full", "selective"] | EveryBlock | BlockFraction


_PRECISION_OF = {"float32": "fp32", "float16": "fp16", "half": "fp16", "bfloat16": "bf16"}


def precision_named(word: str) -> str:
    """Return dpsim's name of a precision, given in any case or torch's name (bfloat16)."""
    return _PRECISION_OF.get(word.lower(), word.lower())


class WorkloadConfig(Config):
    """The work of each GPU in a step."""

    model_config = ConfigDict(
        json_schema_extra={
            "anyOf": [{"required": ["batch_per_gpu"]}, {"required": ["global_batch"]}]
        }
    )

    model: Annotated[str | ModelSource, AfterValidator(known_model)] = Field(
        description=f"A model of the catalogue, or your own. The catalogue: {', '.join(MODELS)}.",
        examples=["resnet50"],
    )
    batch_per_gpu: int = Field(
        default_factory=lambda: 1,  # until `resolved` knows how many workers share global_batch
        ge=1,
        le=MOST_SAMPLES,
        description=(
            "Samples per GPU and pass; a step has gradient_accumulation passes. Required without "
            "global_batch; otherwise computed if left out."
        ),
    )
    global_batch: int | None = Field(
        None,
        ge=1,
        le=MOST_SAMPLES,
        description=(
            "Samples per step over all workers. It determines gradient_accumulation if "
            "batch_per_gpu is given, otherwise batch_per_gpu."
        ),
    )
    precision: Precision = Field(
        "fp32",
        description=(
            "Precision of matrix products; fp16 and bf16 are mixed precision with fp32 "
            "weights. fp8 and nvfp4 apply to the blocks' linear layers; the rest is bf16."
        ),
    )
    parameter_dtype: Literal["fp32", "bf16"] = Field(
        "fp32",
        description=(
            "Data type of weights, gradients and optimizer state. bf16 is torch's pure bf16 "
            "(torchtune's dtype: bf16, model.to(torch.bfloat16)): it halves memory, the update's "
            "traffic and communication, and products are in bf16 too."
        ),
    )
    sequence_length: int | None = Field(
        None,
        validate_default=False,
        description=(
            "Tokens per sample, for language models only. If left out: the catalogue's value (128 "
            "for BERT, 1,024 for GPT-2), or at most 4,096 of a config.json's positions; the "
            "answer states it."
        ),
    )
    attention: Attention | None = Field(
        None,
        validate_default=False,
        description=(
            "flash: one kernel that never writes the scores; unfused: scores are "
            "written out. For transformers only; flash on GPUs that have it "
            "(Ampere and later, CDNA) if left out. Hugging Face's names are "
            f"accepted: {', '.join(ATTENTION_OF)}."
        ),
    )
    optimizer: Optimizer = Field(
        "momentum",
        description=(
            "The optimiser. It determines the memory and the memory traffic of the update, and "
            "the published runs that give the steps to the target. -8bit keeps its state in 8 "
            "bits, as bitsandbytes and torchao do."
        ),
    )
    trainable: Trainable = Field(
        "all",
        description=(
            "Which weights are trained; the others are frozen. {lora: {rank: 16, on: attention}}: "
            "adapters alone, beside products of attention, or of all blocks (all-linear); "
            "{fraction: 0.1}: the last layers that hold at least a tenth; or patterns of layers' "
            'names, such as ["layers.3?.*", "lm_head"].'
        ),
        examples=["all", {"lora": {"rank": 16, "on": "attention"}}],
    )
    software: Tier = Field(
        "typical",
        description=(
            "The kind of training software, which sets the defaults of memory_format, execution "
            "and optimizer_kernels: reference is a research script of its time (channels_first, "
            "eager, loop); typical is PyTorch as most people run it (channels_first, eager, "
            "foreach); tuned is a vendor's example (channels_last, eager, fused); mlperf is a "
            "submission to MLPerf (channels_last, cuda-graph, sharded)."
        ),
    )
    memory_format: MemoryFormat | None = Field(
        None,
        validate_default=False,
        description=(
            "Layout of images. Tensor cores need channels_last; with channels_first the inputs "
            "and outputs of convolutions are transposed. Set by software if left out."
        ),
    )
    execution: Execution | None = Field(
        None,
        validate_default=False,
        description=(
            "eager: the host launches kernel after kernel (PyTorch); compile: torch.compile fuses "
            "elementwise kernels; graph: compiled as a whole (XLA); cuda-graph: kernels as eager, "
            "launched by the GPU itself. Set by software if left out."
        ),
    )
    optimizer_kernels: OptimizerKernels | None = Field(
        None,
        validate_default=False,
        description=(
            "How weights are updated: loop, tensor by tensor; foreach, by kernels over many "
            "tensors; fused, by one kernel; sharded, each worker its share by one kernel. Set by "
            "software if left out."
        ),
    )
    gradient_statistics: GradientStatistics = Field(
        "none",
        description=(
            "each-tensor: hooks compute statistics of each gradient tensor in every backward "
            "pass, such as AdaptDL's noise scale or logged norms. The host launches about ten "
            "more small kernels per tensor."
        ),
    )
    kernels: Kernels = Field(
        "2024",
        description=(
            "Year of the framework's kernels, for transformers in half precision with fused "
            "attention: 2022 is torch 1.12; 2023 is torch 1.13 to 2.0 on CUDA 11, with attention "
            "by Triton; 2023-cuda12 is torch 2.1 on CUDA 12; 2024 is torch 2.2 "
            "and later, with FlashAttention 2."
        ),
    )
    cross_entropy: CrossEntropy | None = Field(
        None,
        validate_default=False,
        description=(
            "How the loss over a vocabulary is computed, which affects memory: full, with an fp32 "
            "copy of the logits; compiled, with a buffer only for their gradient; chunked, a few "
            "tokens at a time (torchtune's CEWithChunkedOutputLoss); fused with the output layer, "
            "so that no logits are kept (Liger, cut cross-entropy). If left out: compiled if "
            "execution is compile or graph, else full."
        ),
    )
    gradient_accumulation: int = Field(
        1,
        ge=1,
        le=MOST_PASSES,
        description="Forward and backward passes per step; gradients are sent in the last.",
    )
    checkpoint: Checkpoint = Field(
        "none",
        description=(
            "Activations that are recomputed in the backward pass: none; full, of every block; "
            "selective, by operator (as torchtitan: products and fused attention are kept, except "
            "every second linear layer); {every: k}, of every k-th block; {fraction: f}, of a "
            "part of the blocks."
        ),
        examples=["none", "full", {"every": 2}],
    )
    checkpointing: str | None = Field(
        None,
        pattern=_CHECKPOINTING,
        description=(
            "Older name of checkpoint: none, full, or 'every N layers', which keeps only the last "
            "output of each N layers."
        ),
        examples=["none", "full", "every 4 layers"],
    )
    padding: Literal["kept"] | PaddingRemoved = Field(
        "kept",
        description=(
            "kept: sequences are padded to sequence_length; {removed: {mean_length: 256}}: "
            "padding is not computed, and sequences have that many tokens on average. For "
            "language models."
        ),
        examples=["kept", {"removed": {"mean_length": 256}}],
    )
    input: InputConfig = Field(MemoryInput(kind="memory"), description="Source of the samples.")
    sync_batch_norm: int = Field(
        1,
        ge=1,
        le=MOST_SAMPLES,
        description=(
            "Number of GPUs that share batch-normalisation statistics (SyncBatchNorm; MLPerf's "
            "group batch norm). Groups of neighbouring ranks all-reduce them, blocking, in the "
            "forward and backward pass; the time counts as computing. 1: each GPU has its own."
        ),
    )
    dataset: DatasetConfig | None = Field(
        None, description="The samples of an epoch; no epoch is reported if left out."
    )
    learners_per_gpu: int = Field(
        1,
        ge=1,
        le=MOST_LEARNERS,
        description="Replicas of the model that share each GPU, each with its own batch.",
    )
    utilisation: tuple[UtilisationPoint, ...] = Field(
        (),
        description=(
            "Measured throughput of one learner by batch size; it gives the pass times with all "
            "learners' samples in flight. Computed if left out."
        ),
    )

    @model_validator(mode="before")
    @classmethod
    def _default_precision(cls, fields: Any) -> Any:
        """Default to bf16 products if weights are in bf16."""
        if isinstance(fields, dict) and fields.get("parameter_dtype") == "bf16":
            return {"precision": "bf16", **fields}
        return fields

    @field_validator("precision", mode="before")
    @classmethod
    def _accept_torch_names(cls, word: object) -> object:
        return precision_named(word) if isinstance(word, str) else word

    @field_validator(
        "optimizer", "attention", "software", "memory_format", "execution", mode="before"
    )
    @classmethod
    def _accept_any_case(cls, word: object) -> object:
        """Accept other tools' spellings: BF16, AdamW."""
        return word.lower() if isinstance(word, str) else word

    @field_validator("attention", mode="before")
    @classmethod
    def _accept_hugging_face_names(cls, word: object) -> object:
        return ATTENTION_OF.get(word, word) if isinstance(word, str) else word

    @field_validator("sequence_length")
    @classmethod
    def _check_length(cls, length: int | None, info: ValidationInfo) -> int | None:
        # An invalid model is missing here, and has been reported.
        if "model" in info.data:
            _entry(info.data["model"]).check(length)
        return length

    @field_validator("padding")
    @classmethod
    def _check_padding(
        cls, padding: Literal["kept"] | PaddingRemoved, info: ValidationInfo
    ) -> Literal["kept"] | PaddingRemoved:
        if isinstance(padding, PaddingRemoved) and "model" in info.data:
            _entry(info.data["model"]).check(padding.removed.mean_length)
        return padding

    @field_validator("attention")
    @classmethod
    def _check_attention(
        cls, attention: Attention | None, info: ValidationInfo
    ) -> Attention | None:
        if "model" in info.data:
            _entry(info.data["model"]).check_attention(attention)
        return attention

    @field_validator("checkpointing")
    @classmethod
    def _check_one_name_only(cls, older: str | None, info: ValidationInfo) -> str | None:
        if older is not None and info.data.get("checkpoint", "none") != "none":
            raise ValueError(
                f"must be left out beside checkpoint, its newer word, but got {older!r}"
            )
        return older

    @field_validator("utilisation")
    @classmethod
    def _check_utilisation(
        cls, points: tuple[UtilisationPoint, ...]
    ) -> tuple[UtilisationPoint, ...]:
        if points:
            measured_time(points)
        return points

    @model_validator(mode="after")
    def _check_precision(self) -> WorkloadConfig:
        if self.parameter_dtype == "bf16" and self.precision not in ("bf16", *NARROW):
            raise ValueError(
                f"precision must be bf16, fp8 or nvfp4 with parameter_dtype: bf16, but got "
                f"{self.precision!r}"
            )
        return self

    @model_validator(mode="after")
    def _check_batch_given(self) -> WorkloadConfig:
        # Both have defaults, so only the set fields show whether one was given.
        if not {"batch_per_gpu", "global_batch"} & self.model_fields_set:
            raise ValueError("batch_per_gpu is missing (or global_batch, of all workers together)")
        return self

    def resolved(self, workers: int) -> WorkloadConfig:
        """Return the workload with batch and passes derived from ``global_batch``, if given.

        Raises DpsimError if it does not divide evenly, or all three are given and disagree.
        """
        global_batch = self.global_batch
        if global_batch is None:
            return self

        replicas = workers * self.learners_per_gpu
        given = {name for name in _BATCHES if name in self.model_fields_set}
        batch, passes = self.batch_per_gpu, self.gradient_accumulation
        if "batch_per_gpu" not in given:
            # Passes are known, at least by default.
            batch = _share(global_batch, {"workers": replicas, "passes": passes})
        elif "gradient_accumulation" not in given:
            passes = _share(global_batch, {"workers": replicas, "samples per GPU and pass": batch})
        elif replicas * batch * passes != global_batch:
            raise DpsimError(
                f"global_batch must be {replicas:,} workers x {batch:,} samples x {passes:,} passes"
                f" = {replicas * batch * passes:,} where all three are given, but got "
                f"{global_batch:,}"
            )
        values = {**dict(self), "batch_per_gpu": batch, "gradient_accumulation": passes}
        # Keep the set fields, so that the batch can be divided by another number of workers.
        return type(self).model_construct(_fields_set=set(self.model_fields_set), **values)

    @property
    def full_software(self) -> Software:
        """The software, with its tier's defaults."""
        usual = BY_TIER[self.software]
        execution = self.execution or usual.execution
        return Software(
            self.software,
            self.memory_format or usual.memory_format,
            execution,
            self.optimizer_kernels or usual.optimizer_kernels,
            self.kernels,
            # A compiled model also compiles its loss.
            self.cross_entropy or ("compiled" if execution in ("compile", "graph") else "full"),
            self.gradient_statistics,
        )

    @property
    def assumed_software(self) -> tuple[str, ...]:
        """The fields of the software that are not given and take their tier's defaults."""
        words = ("software", "memory_format", "execution", "optimizer_kernels")
        return tuple(word for word in words if word not in self.model_fields_set)

    @property
    def samples_per_gpu(self) -> int:
        """Samples per GPU and step, over all learners and passes."""
        return self.batch_per_gpu * self.gradient_accumulation * self.learners_per_gpu

    @property
    def recompute(self) -> Recompute | None:
        """The activation checkpointing; None if everything is kept."""
        chosen = self.checkpoint if self.checkpointing is None else self.checkpointing
        if chosen == "none":
            return None
        # A share of the blocks, written as a mapping.
        if isinstance(chosen, Config):
            return Recompute(chosen.share)
        if chosen.startswith("every"):
            return Recompute(layers=int(chosen.split()[1]))
        return Recompute(selective=chosen == "selective")

    @property
    def checkpoints_all(self) -> bool:
        """Whether every activation is recomputed, in segments of the framework's choice."""
        return "full" in (self.checkpoint, self.checkpointing)

    @property
    def has_length(self) -> bool:
        """Whether samples are sequences, whose length can be chosen."""
        return _entry(self.model).has_length

    @property
    def length(self) -> int | None:
        """Tokens of a computed sample; None if the model has no choice of length."""
        if isinstance(self.padding, PaddingRemoved):
            return self.padding.removed.mean_length
        entry = _entry(self.model)
        return self.sequence_length or (entry.usual if isinstance(entry, Tokens) else None)

    def sample_of(self, model: Model) -> dict[str, Any]:
        """Return the ``sample`` of ``model`` in words, its ``sequence_length``, and ``assumed``."""
        length = self.length
        is_open = length is not None and self.sequence_length is None and self.padding == "kept"
        assumed = ["sequence_length"] if is_open else []
        return {"sample": model.sample, "sequence_length": length, "assumed": assumed}

    def build(self, *, flash: bool = True) -> Model:
        """Build the model; ``flash``: its GPUs have FlashAttention, the default there."""
        entry = _entry(self.model)
        attention = self.attention or entry.attention
        if attention is None and entry.fusible:
            # Not specified: choose as frameworks do, by the GPU's capabilities.
            attention = "flash" if flash else "unfused"
        built = trained_in_part(entry.build(self.length, attention), self.trainable)
        return replace(built, parameter_bytes=2) if self.parameter_dtype == "bf16" else built


def _share(global_batch: int, divided: dict[str, int]) -> int:
    """Return the share of a global batch for each of the ``divided``."""
    divisor = prod(divided.values())
    share, rest = divmod(global_batch, divisor)
    if rest or not share:
        product = " x ".join(f"{number:,} {what}" for what, number in divided.items())
        raise DpsimError(
            f"global_batch must be a multiple of {product} = {divisor:,}, but got {global_batch:,}"
        )
    return share


def _entry(model: str | ModelSource) -> Images | Tokens:
    return MODELS[model] if isinstance(model, str) else model.entry()
