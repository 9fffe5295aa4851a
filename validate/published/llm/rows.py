"""Rows of a table of language model training, read, and those that dpsim cannot simulate named."""

from __future__ import annotations

from dataclasses import dataclass

from dpsim.base.errors import DpsimError
from dpsim.hardware import Gpu, gpu_named_in
from dpsim.workload import transformer_efficiency
from validate.published.tables import LEAST, MOST, Columns, constants_file

SETTINGS = "llm/settings.yaml"

REQUIRED = (
    "row_id", "case_id", "source", "model", "params", "layers", "hidden", "heads", "kv_heads",
    "ffn", "vocab", "seq_len", "gpu", "gpus", "gpus_per_node", "precision", "sharding",
    "shard_group", "act_ckpt", "micro_batch", "grad_accum", "step_time_s", "quality",
)  # fmt: skip
IDENTITY = (
    "row_id", "case_id", "source", "model", "gpu", "gpus", "seq_len", "precision", "sharding",
    "shard_group", "act_ckpt", "micro_batch", "grad_accum", "quality",
)  # fmt: skip
SHARDINGS = ("ddp", "zero1", "zero3", "fsdp_full", "fsdp_grad_op", "hsdp")
_SIZES = ("params", "layers", "hidden", "heads", "ffn", "vocab", "seq_len", "gpus")


@dataclass(frozen=True, slots=True)
class LlmRow:
    """One configuration, in SI units; ``measured`` is the step in seconds, None where not stated.

    ``flash``: whether attention is fused. ``said`` is what the row says in words: source,
    framework, note.
    """

    index: int
    row_id: str
    case_id: str
    source: str
    said: str
    year: int
    model: str
    params: int
    layers: int
    hidden: int
    heads: int
    kv_heads: int
    ffn: int
    vocab: int
    seq_len: int
    gpu: Gpu
    gpus: int
    gpus_per_node: int
    nic_gbps: float | None
    precision: str
    sharding: str
    shard_group: str
    checkpoint: str
    flash: bool
    compiled: bool
    micro_batch: int
    passes: int
    measured: float | None
    quality: str
    memory_gb: float | None

    @property
    def nodes(self) -> int:
        """Nodes in use."""
        return self.gpus // self.gpus_per_node

    @property
    def tokens_per_gpu(self) -> int:
        """Tokens of a step on each GPU."""
        return self.micro_batch * self.passes * self.seq_len


class NotSimulatedError(DpsimError):
    """Why dpsim has no scenario for a row, in a word or two first."""


def read_row(rows: Columns, index: int) -> LlmRow:
    """The row; raises NotSimulatedError for what dpsim does not simulate, or is not stated."""
    texts = {name: str(column[index]) for name, column in rows.columns.items()}
    for name in ("tp", "pp", "cp"):
        if texts.get(name, "") not in ("", "1", "1.0"):
            raise NotSimulatedError(f"model_parallel: {name} is {texts[name]}")
    gpu = _gpu(texts["gpu"])
    sizes = {name: _whole(texts, name) for name in _SIZES}
    if texts["sharding"] not in SHARDINGS:
        raise NotSimulatedError(f"sharding not known: {texts['sharding']!r}")
    micro_batch, passes = _whole(texts, "micro_batch"), _whole(texts, "grad_accum")
    per_node = min(_whole(texts, "gpus_per_node"), sizes["gpus"])
    if sizes["gpus"] % per_node:
        raise NotSimulatedError("nodes unevenly filled")
    return LlmRow(
        index=index,
        row_id=texts["row_id"],
        case_id=texts["case_id"],
        source=texts["source"],
        said=" | ".join(texts.get(name, "") for name in ("source", "framework", "note")),
        year=int(_number(texts, "year") or 0),
        model=texts["model"],
        **sizes,
        kv_heads=int(_number(texts, "kv_heads") or sizes["heads"]),
        gpu=gpu,
        gpus_per_node=per_node,
        nic_gbps=_number(texts, "nic_gbps_per_node"),
        precision=texts["precision"],
        sharding=texts["sharding"],
        shard_group=texts["shard_group"],
        checkpoint=texts["act_ckpt"],
        flash="plain" not in texts.get("attention", ""),
        compiled=texts.get("compiled", "") in ("1", "1.0"),
        micro_batch=micro_batch,
        passes=passes,
        measured=_number(texts, "step_time_s"),
        quality=texts["quality"],
        memory_gb=_number(texts, "mem_gb_per_gpu"),
    )


def _gpu(name: str) -> Gpu:
    """The catalogue's GPU that the table's name means, and dpsim has efficiencies for."""
    found = gpu_named_in(constants_file(SETTINGS)["gpus"].get(name, name))
    if found is None:
        raise NotSimulatedError(f"no such hardware: {name}")
    if transformer_efficiency(found.architecture) is None:
        raise NotSimulatedError(
            f"no such hardware: of {found.architecture} no language model was measured ({name})"
        )
    return found


def _number(texts: dict[str, str], name: str) -> float | None:
    try:
        value = float(texts.get(name, ""))
    except ValueError:
        return None
    # Not a number is beyond both.
    return value if LEAST <= value <= MOST else None


def _whole(texts: dict[str, str], name: str) -> int:
    value = _number(texts, name)
    if value is None:
        raise NotSimulatedError(f"not stated: {name}")
    if value != int(value):
        raise NotSimulatedError(f"uneven passes: {name} is {texts[name]}")
    return int(value)
