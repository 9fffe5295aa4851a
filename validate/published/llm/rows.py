"""Rows of a table of language model training, read, and those that dpsim cannot simulate named."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

from dpsim.hardware import Gpu
from dpsim.workload import transformer_efficiency
from validate.published.tables import NotPredictedError, Row, gpu_in, packaged_rows

TABLE, SETTINGS = "llm_fsdp.csv", "llm/settings.yaml"
REQUIRED = (
    "row_id", "case_id", "source", "model", "params", "layers", "hidden", "heads", "kv_heads",
    "ffn", "vocab", "seq_len", "gpu", "gpus", "gpus_per_node", "precision", "sharding",
    "shard_group", "act_ckpt", "micro_batch", "grad_accum", "step_time_s", "quality",
)  # fmt: skip
IDENTITY = (
    "case_id", "source", "model", "gpu", "gpus", "seq_len", "precision", "sharding",
    "shard_group", "act_ckpt", "micro_batch", "grad_accum", "quality",
)  # fmt: skip
CONFIGURATION = (
    "source", "framework", "note", "model", "params", "gpu", "gpus", "seq_len", "precision",
    "sharding", "shard_group", "act_ckpt", "compiled", "micro_batch", "grad_accum",
)  # fmt: skip
SHARDINGS = ("ddp", "zero1", "zero3", "fsdp_full", "fsdp_grad_op", "hsdp")


@dataclass(frozen=True, slots=True)
class LlmRow:
    """One configuration, in SI units; ``measured`` is the step in seconds, None where not stated.

    ``flash``: whether attention is fused. ``said`` is what the row says in words: source,
    framework, note.
    """

    row: Row
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

    @property
    def is_seen(self) -> bool:
        """Whether the public table, on which the shipped constants are fitted, has the same."""
        return self.row.key(CONFIGURATION) in _public()


def read_row(row: Row) -> LlmRow:
    """The row; raises NotPredictedError for what dpsim does not simulate, or is not stated."""
    for name in ("tp", "pp", "cp"):
        if row.text(name) not in ("", "1", "1.0"):
            raise NotPredictedError(f"model_parallel: {name} is {row.text(name)}")
    gpu = gpu_in(row.text("gpu"))
    if transformer_efficiency(gpu.architecture) is None:
        of = f"of {gpu.architecture} no language model was measured"
        raise NotPredictedError(f"no such hardware: {of} ({row.text('gpu')})")
    if row.text("sharding") not in SHARDINGS:
        raise NotPredictedError(f"sharding not known: {row.text('sharding')!r}")
    ranks, heads = row.whole("gpus"), row.whole("heads")
    per_node = min(row.whole("gpus_per_node"), ranks)
    if ranks % per_node:
        raise NotPredictedError("nodes unevenly filled")
    return LlmRow(
        row=row,
        case_id=row.text("case_id"),
        source=row.text("source"),
        said=row.said("source", "framework", "note"),
        year=int(row.number("year") or 0),
        model=row.text("model"),
        params=row.whole("params"),
        layers=row.whole("layers"),
        hidden=row.whole("hidden"),
        heads=heads,
        kv_heads=int(row.number("kv_heads") or heads),
        ffn=row.whole("ffn"),
        vocab=row.whole("vocab"),
        seq_len=row.whole("seq_len"),
        gpu=gpu,
        gpus=ranks,
        gpus_per_node=per_node,
        nic_gbps=row.number("nic_gbps_per_node"),
        precision=row.text("precision"),
        sharding=row.text("sharding"),
        shard_group=row.text("shard_group"),
        checkpoint=row.text("act_ckpt"),
        flash="plain" not in row.text("attention"),
        compiled=row.text("compiled") in ("1", "1.0"),
        micro_batch=row.whole("micro_batch"),
        passes=row.whole("grad_accum"),
        measured=row.number("step_time_s"),
        quality=row.text("quality"),
        memory_gb=row.number("mem_gb_per_gpu"),
    )


@cache
def _public() -> frozenset[tuple[str, ...]]:
    return frozenset(row.key(CONFIGURATION) for row in packaged_rows(TABLE))
