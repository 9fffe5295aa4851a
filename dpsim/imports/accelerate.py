"""A scenario from a configuration of Hugging Face: accelerate's YAML, or Trainer's arguments.

Keys: "Fully Sharded Data Parallel" of accelerate's and of transformers' documentation. What
accelerate calls fsdp_backward_prefetch, Trainer's fsdp_config calls backward_prefetch.
"""

from __future__ import annotations

from contextlib import suppress

from dpsim.base.errors import UnknownNameError
from dpsim.imports.reading import ImportFileError
from dpsim.imports.scenario_draft import (
    ScenarioDraft,
    TrainingSizes,
    gather_units,
    name_model,
    place_workers,
    send_buckets,
    use_nccl,
    wrap_blocks,
)
from dpsim.imports.settings import OFFLOAD, Settings, yaml_settings
from dpsim.workload import canonical_name

# Stage, and whether groups are nodes.
_STRATEGIES: dict[str, tuple[int, bool]] = {
    "full_shard": (3, False),
    "shard_grad_op": (2, False),
    "hybrid_shard": (3, True),
    "hybrid_shard_zero2": (2, True),
    "no_shard": (0, False),
    # As torch numbers them.
    "1": (3, False),
    "2": (2, False),
    "3": (0, False),
    "4": (3, True),
    "5": (2, True),
}
_PREFETCH = {
    "backward_pre": "pre",
    "backward_post": "post",
    "pre": "pre",
    "post": "post",
    "no_prefetch": "none",
    "none": "none",
}
_DISTRIBUTED = {
    word: word for word in ("no", "multi_gpu", "fsdp", "deepspeed", "multi_cpu", "multi_npu")
}
_PRECISIONS = {"no": "fp32", "fp16": "fp16", "bf16": "bf16", "fp8": "fp8"}
_COMPILERS = {"no": "eager", "eager": "eager", "inductor": "compile"}
_OPTIMIZERS = {"adamw": "adamw", "adafactor": "adamw", "sgd": "sgd", "adam": "adam"}


def scenario_from_accelerate(content: bytes, name: str, sizes: TrainingSizes) -> ScenarioDraft:
    """The scenario that such a file describes; raises DpsimError for what cannot be."""
    settings = yaml_settings(content, name)
    draft = ScenarioDraft(name, "accelerate")
    kind = settings.word("distributed_type", _DISTRIBUTED)
    workers = settings.number("num_processes")
    machines = settings.number("num_machines")
    if workers and machines and sizes.nodes is None:
        # Its launcher starts as many processes on each machine.
        each, rest = divmod(workers, machines)
        if rest:
            raise ImportFileError(
                f"num_processes must be a multiple of num_machines ({machines}), but got {workers}"
            )
        sizes = TrainingSizes(
            sizes.model, machines, each, sizes.node, sizes.batch, sizes.sequence_length
        )
    place_workers(draft, sizes, workers, "num_processes" if workers else "")
    name_model(draft, sizes, _model(settings))
    _batches(draft, settings, sizes)
    precision = _precision(draft, settings)
    _program(draft, settings)
    # Trainer says with the word fsdp what accelerate says with distributed_type.
    trainer = settings.word("fsdp") or ""
    if kind == "fsdp" or settings.has("fsdp_config") or trainer:
        _fsdp(draft, settings.section("fsdp_config"), trainer, precision)
    elif kind == "deepspeed":
        _deepspeed(draft, settings.section("deepspeed_config"), precision)
    else:
        draft.set("strategy.aggregation.kind", "allreduce", f"distributed_type: {kind or 'none'}")
        draft.assume("strategy.overlap.kind", "buckets", "torch's buckets of 25 MiB")
    use_nccl(draft)
    for key in settings.left():
        draft.ignore(key)
    return draft


def _model(settings: Settings) -> tuple[str, str] | None:
    said = settings.word("model_name_or_path")
    if said is None:
        return None
    # As it stands, without the owner, and without the ending of converted checkpoints.
    for name in (said, said.rpartition("/")[2], said.rpartition("/")[2].removesuffix("-hf")):
        with suppress(UnknownNameError):
            return canonical_name(name), "model_name_or_path"
    return None


def _batches(draft: ScenarioDraft, settings: Settings, sizes: TrainingSizes) -> None:
    batch = settings.number("per_device_train_batch_size")
    if sizes.batch is not None:
        draft.set("workload.batch_per_gpu", sizes.batch, "--batch")
    elif batch is not None:
        draft.set("workload.batch_per_gpu", batch, "per_device_train_batch_size")
    else:
        draft.assume("workload.batch_per_gpu", 1, "the file does not say; --batch N")
    passes = settings.number("gradient_accumulation_steps")
    if passes is not None:
        draft.set("workload.gradient_accumulation", passes, "gradient_accumulation_steps")
    length = settings.number("max_seq_length") or settings.number("max_length")
    if length is not None and sizes.sequence_length is None:
        draft.set("workload.sequence_length", length, "max_seq_length")


def _precision(draft: ScenarioDraft, settings: Settings) -> str:
    said = settings.word("mixed_precision", _PRECISIONS)
    chosen, source = _PRECISIONS[said or "no"], "mixed_precision"
    for key in ("bf16", "fp16"):
        if settings.flag(key):
            chosen, source = key, key
    draft.set("workload.precision", chosen, source)
    return chosen


def _program(draft: ScenarioDraft, settings: Settings) -> None:
    """Say what is compiled, computed again and updated."""
    backend = settings.section("dynamo_config").word("dynamo_backend")
    if backend is not None:
        chosen = _COMPILERS.get(backend, "compile")
        draft.set("workload.execution", chosen, "dynamo_config.dynamo_backend")
    elif settings.flag("torch_compile"):
        draft.set("workload.execution", "compile", "torch_compile")
    if settings.flag("gradient_checkpointing"):
        draft.set("workload.checkpoint", "full", "gradient_checkpointing")
    said = settings.word("optim")
    # By how the name begins: adamw_torch_fused. adamw is asked before adam, which it begins with.
    chosen = next((ours for word, ours in _OPTIMIZERS.items() if (said or "").startswith(word)), "")
    if chosen:
        draft.set("workload.optimizer", chosen, "optim")
    else:
        draft.assume("workload.optimizer", "adamw", "the program chooses it")


def _fsdp(draft: ScenarioDraft, config: Settings, trainer: str, precision: str) -> None:
    """Say what FSDP divides, gathers ahead and wraps."""
    stage, per_node, source = _strategy(config, trainer)
    width = 4 if precision == "fp32" else 2
    if stage == 0:
        draft.set("strategy.aggregation.kind", "allreduce", source)
    else:
        draft.set("strategy.aggregation.kind", "sharded", source)
        draft.set("strategy.aggregation.stage", stage, source)
        draft.set("strategy.aggregation.shard_group", "node" if per_node else "all", source)
        # By their width: fp16 travels as bf16 does.
        said = "mixed_precision: weights and gradients travel in it"
        draft.set("strategy.aggregation.weight_bytes", width, said)
        draft.set("strategy.aggregation.gradients.dtype", "fp32" if width == 4 else "bf16", said)
    if stage == 3:
        _ahead(draft, config)
        least = _either(config, "min_num_params")
        size = config.number(least) if least else None
        if size:
            gather_units(draft, size, f"fsdp_config.{least}")
            send_buckets(draft, size * width, f"fsdp_config.{least}")
        else:
            policy = _either(config, "auto_wrap_policy") or "auto_wrap_policy"
            # Read all the same, so that it is not listed as left over.
            config.word(policy)
            wrap_blocks(draft, f"fsdp_config.{policy}")
    else:
        draft.assume("strategy.overlap.kind", "buckets", "gradients are sent as they come")
    again = _either(config, "activation_checkpointing")
    if again and config.flag(again):
        draft.set("workload.checkpoint", "full", f"fsdp_config.{again}")
    offload = _either(config, "offload_params")
    if offload and config.flag(offload):
        draft.ignore(f"fsdp_config.{offload}", OFFLOAD)


def _strategy(config: Settings, trainer: str) -> tuple[int, bool, str]:
    """Stage, whether groups are nodes, and where that is from."""
    for word in trainer.split():
        if word in _STRATEGIES:
            return *_STRATEGIES[word], "fsdp"
    key = _either(config, "sharding_strategy")
    if key:
        return *_STRATEGIES[config.word(key, _STRATEGIES) or "1"], f"fsdp_config.{key}"
    # FSDP 2 asks only whether weights are freed after the forward pass; it took the older words.
    key = _either(config, "reshard_after_forward")
    if key is None:
        return 3, False, "fsdp_config: FULL_SHARD where nothing is said"
    said = config.word(key) or ""
    return *_STRATEGIES.get(said, (3, False)), f"fsdp_config.{key}"


def _ahead(draft: ScenarioDraft, config: Settings) -> None:
    """Say how early weights are gathered."""
    key = _either(config, "backward_prefetch")
    said = config.word(key, _PREFETCH) if key else None
    if said is not None:
        draft.set("strategy.aggregation.backward_prefetch", _PREFETCH[said], f"fsdp_config.{key}")
    key = _either(config, "reshard_after_forward")
    if key and config.word(key) == "false":
        draft.set("strategy.aggregation.reshard_after_forward", False, f"fsdp_config.{key}")
    key = _either(config, "forward_prefetch")
    if key:
        config.flag(key)
        draft.ignore(f"fsdp_config.{key}", "the host is taken to ask early enough in any case")
    key = _either(config, "limit_all_gathers")
    limited = config.flag(key) if key else None
    if limited is not None:
        draft.set("strategy.aggregation.limit_all_gathers", limited, f"fsdp_config.{key}")


def _either(config: Settings, key: str) -> str | None:
    """The key as accelerate or as Trainer writes it, whichever is there."""
    return next((each for each in (f"fsdp_{key}", key) if config.has(each)), None)


def _deepspeed(draft: ScenarioDraft, config: Settings, precision: str) -> None:
    """Say what accelerate's few keys of DeepSpeed do."""
    stage = config.number("zero_stage", least=0, most=3) or 0
    width = 4 if precision == "fp32" else 2
    source = "deepspeed_config.zero_stage"
    if config.has("deepspeed_config_file"):
        config.word("deepspeed_config_file")
        draft.ignore(
            "deepspeed_config.deepspeed_config_file", "read it with dpsim import deepspeed"
        )
    draft.set("strategy.aggregation.kind", "sharded" if stage else "allreduce", source)
    if stage:
        draft.set("strategy.aggregation.stage", stage, source)
        draft.set("strategy.aggregation.weight_bytes", width, "mixed_precision")
    passes = config.number("gradient_accumulation_steps")
    if passes is not None:
        draft.set(
            "workload.gradient_accumulation", passes, "deepspeed_config.gradient_accumulation_steps"
        )
    for key in ("offload_optimizer_device", "offload_param_device"):
        if config.word(key) not in (None, "none"):
            draft.ignore(f"deepspeed_config.{key}", OFFLOAD)
