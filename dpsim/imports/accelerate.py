"""A scenario from a configuration of Hugging Face: accelerate's YAML, or Trainer's arguments.

Keys: "Fully Sharded Data Parallel" of accelerate's and of transformers' documentation. The
key fsdp_backward_prefetch of accelerate is backward_prefetch in Trainer's fsdp_config.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from dpsim.imports.deepspeed import add_deepspeed, send_gradients
from dpsim.imports.reading import ImportFileError
from dpsim.imports.scenario_draft import (
    ScenarioDraft,
    TrainingSizes,
    gather_units,
    left_out,
    name_model,
    offload,
    place_workers,
    send_buckets,
    set_batch,
    set_optimizer,
    set_passes,
    use_nccl,
    wrap_blocks,
)
from dpsim.imports.settings import Settings, yaml_settings
from dpsim.workload import ATTENTION_OF, MODELS, Attention, canonical_name

# Whether weights are freed after forward (None: not sharded), and whether groups are nodes.
_STRATEGIES: dict[str, tuple[bool | None, bool]] = {
    "full_shard": (True, False),
    "shard_grad_op": (False, False),
    "hybrid_shard": (True, True),
    "hybrid_shard_zero2": (False, True),
    "no_shard": (None, False),
    # torch's numbers.
    "1": (True, False),
    "2": (False, False),
    "3": (None, False),
    "4": (True, True),
    "5": (False, True),
}
_PREFETCH = {
    "backward_pre": "pre",
    "backward_post": "post",
    "pre": "pre",
    "post": "post",
    "no_prefetch": "none",
    "none": "none",
}
_DISTRIBUTED = {word: word for word in ("no", "multi_gpu", "fsdp", "deepspeed")}
# accelerate's words, and Composer's.
_PRECISIONS = {
    "no": "fp32",
    "fp32": "fp32",
    "fp16": "fp16",
    "amp_fp16": "fp16",
    "bf16": "bf16",
    "amp_bf16": "bf16",
    "fp8": "fp8",
}
_COMPILERS = {"no": "eager", "eager": "eager", "inductor": "compile"}
_TRAINERS_OTHER_WORDS = ("true", "auto_wrap", "offload")
_WRAPS = {"transformer_based_wrap": "block", "size_based_wrap": "size", "no_wrap": "model"}
_RESHARD = {"true": (True, False), "false": (False, False), **_STRATEGIES}
_WHOLE_MODEL = 2**40  # elements: more than any model has
# Names of Trainer and Composer, and torchtune's classes; adamw_torch_fused and the like differ only
# in kernels.
_OPTIMIZERS = {
    "adagrad": "adagrad",
    "adam": "adam",
    "adamw8bit": "adamw-8bit",
    "adamw_8bit": "adamw-8bit",
    "adamw_apex_fused": "adamw",
    "adamw_bnb_8bit": "adamw-8bit",
    "adamw_hf": "adamw",
    "adamw_torch": "adamw",
    "adamw_torch_8bit": "adamw-8bit",
    "adamw_torch_fused": "adamw",
    "decoupled_adamw": "adamw",
    "paged_adamw": "adamw",
    "paged_adamw_32bit": "adamw",
    "paged_adamw_8bit": "adamw-8bit",
    "pagedadamw": "adamw",
    "pagedadamw8bit": "adamw-8bit",
    "sgd": "sgd",
}
# Keys by which Trainer, Axolotl and LLaMA-Factory choose the attention kernel, and their values.
_ATTENTION: dict[str, dict[str, Attention]] = {
    "attn_implementation": ATTENTION_OF,
    "flash_attention": {"true": "flash"},
    "sdp_attention": {"true": "flash"},
    "flash_attn": {"fa2": "flash", "sdpa": "flash", "disabled": "unfused"},
}
_PAGED_EFFECT = "pages that move to the host where memory is short take no time here"


def scenario_from_accelerate(content: bytes, name: str, sizes: TrainingSizes) -> ScenarioDraft:
    """Return the scenario of a configuration file. Raises DpsimError for unsupported settings."""
    draft = ScenarioDraft(name, "accelerate")
    return scenario_of_trainer(yaml_settings(content, name), draft, sizes)


def scenario_of_trainer(
    settings: Settings, draft: ScenarioDraft, sizes: TrainingSizes
) -> ScenarioDraft:
    """Fill ``draft`` from accelerate's or Trainer's keys.

    Raises DpsimError for unsupported settings.
    """
    settings.refuse_other_parallelism()
    if settings.flag("use_cpu"):
        raise ImportFileError("use_cpu must be false, since GPUs are simulated, but got true")
    kind = settings.word("distributed_type", _DISTRIBUTED)
    workers = settings.number("num_processes")
    if kind == "no" and not (sizes.nodes or sizes.gpus_per_node):
        workers = workers or 1
    machines = settings.number("num_machines")
    if workers and machines and sizes.nodes is None:
        # The launcher starts equally many processes on each machine.
        each, rest = divmod(workers, machines)
        if rest:
            raise ImportFileError(
                f"num_processes must be a multiple of num_machines ({machines}), but got {workers}"
            )
        sizes = replace(sizes, nodes=machines, gpus_per_node=each)
    place_workers(draft, sizes, workers, "num_processes" if workers else "")
    _model(draft, sizes, settings)
    _batches(draft, settings, sizes)
    precision = _precision(draft, settings)
    _program(draft, settings)
    # Trainer's key fsdp corresponds to accelerate's distributed_type.
    trainer = settings.words("fsdp")
    by_trainer = kind is None and (bool(trainer) or settings.has("fsdp_config"))
    file = settings.text("deepspeed")
    if file is not None:
        add_deepspeed(draft, file, "deepspeed", sizes.folder, precision)
    elif kind == "fsdp" or by_trainer:
        # accelerate's keys have the prefix, Trainer's have not.
        config = settings.section("fsdp_config", prefix="fsdp_")
        _fsdp(draft, config, trainer, precision)
        _replicas(draft, settings.section("parallelism_config"), workers)
    elif kind == "deepspeed":
        _read_deepspeed(draft, settings.section("deepspeed_config"), sizes.folder, precision)
    else:
        _set_replicated(draft, settings, kind)
    use_nccl(draft)
    left_out(draft, settings)
    return draft


def _set_replicated(draft: ScenarioDraft, settings: Settings, kind: str | None) -> None:
    """Set up workers that each hold the whole model, as with DistributedDataParallel."""
    if kind is None:
        why = "the file names neither FSDP nor DeepSpeed"
        draft.assume("strategy.aggregation.kind", "allreduce", why)
    else:
        draft.set("strategy.aggregation.kind", "allreduce", f"distributed_type: {kind}")
    bucket = settings.number("ddp_bucket_cap_mb")
    if bucket is None:
        draft.assume("strategy.overlap.kind", "buckets", "DDP's own, of 25 MiB")
    else:
        send_buckets(draft, bucket * 2**20, "ddp_bucket_cap_mb")
    if settings.flag("ddp_find_unused_parameters"):
        path = "strategy.aggregation.find_unused_parameters"
        draft.set(path, True, "ddp_find_unused_parameters")


def _model(draft: ScenarioDraft, sizes: TrainingSizes, settings: Settings) -> None:
    path = settings.word("model_name_or_path")
    if path is None:
        name_model(draft, sizes)
        return
    # Unchanged, without the owner, and without the suffix of converted checkpoints.
    name = path.rpartition("/")[2]
    spellings = (path, name, name.removesuffix("-hf"))
    name_model(draft, sizes, (path, settings.path("model_name_or_path")), spellings)


def _replicas(draft: ScenarioDraft, config: Settings, workers: int | None) -> None:
    """Set the groups in which FSDP 2 shards, if parallelism_config has any."""
    replicas = config.number("parallelism_config_dp_replicate_size") or 1
    shards = config.number("parallelism_config_dp_shard_size") or 1
    if replicas * shards == 1:
        return
    if workers is not None and replicas * shards != workers:
        raise ImportFileError(
            "parallelism_config: dp_replicate_size x dp_shard_size must be num_processes "
            f"({workers}), but got {replicas} x {shards}"
        )
    source = "parallelism_config_dp_shard_size"
    if shards == 1:
        raise ImportFileError(
            f"parallelism_config.{source} must be above 1 where FSDP replicates, but got 1"
        )
    draft.set("strategy.aggregation.shard_group", shards if replicas > 1 else "all", source)


def _batches(draft: ScenarioDraft, settings: Settings, sizes: TrainingSizes) -> None:
    key = "per_device_train_batch_size"
    set_batch(draft, sizes, settings.number(key), settings.path(key))
    set_passes(draft, settings)
    length = settings.number("max_seq_length") or settings.number("max_length")
    if length is not None and sizes.sequence_length is None:
        draft.set("workload.sequence_length", length, settings.path("max_seq_length"))


def _precision(draft: ScenarioDraft, settings: Settings) -> str:
    word = settings.word("mixed_precision", _PRECISIONS)
    chosen = _PRECISIONS[word or "no"]
    flags = [key for key in ("bf16", "fp16") if settings.flag(key)]
    left_open = [key for key in ("bf16", "fp16") if settings.is_open(key)]
    if flags:
        chosen = flags[-1]
        draft.set("workload.precision", chosen, chosen)
    elif word is not None:
        draft.set("workload.precision", chosen, settings.path("mixed_precision"))
    elif left_open:
        chosen = left_open[0]
        why = f"{chosen} is auto: the program fills it in, and may also say fp32"
        draft.assume("workload.precision", chosen, why)
    else:
        draft.assume("workload.precision", chosen, "the file does not say; the default")
    return chosen


def _program(draft: ScenarioDraft, settings: Settings) -> None:
    """Set compilation, activation checkpointing and the optimiser."""
    backend = settings.section("dynamo_config").word("dynamo_backend")
    if backend in _COMPILERS:
        draft.set("workload.execution", _COMPILERS[backend], "dynamo_config.dynamo_backend")
    elif backend is not None:
        key = f"dynamo_config.dynamo_backend = {backend}"
        draft.ignore(key, "this compiler is not simulated: kernels are taken as in eager mode")
    elif settings.flag("torch_compile"):
        draft.set("workload.execution", "compile", settings.path("torch_compile"))
    if settings.flag("gradient_checkpointing"):
        draft.set("workload.checkpoint", "full", settings.path("gradient_checkpointing"))
    _attention(draft, settings)
    word = settings.word("optim")
    key = settings.path("optim")
    set_optimizer(draft, word, _OPTIMIZERS, key)
    if word in _OPTIMIZERS and word.startswith("paged"):
        draft.ignore(f"{key} = {word}", _PAGED_EFFECT)


def _attention(draft: ScenarioDraft, settings: Settings) -> None:
    """Set the kernel of attention, if a key chooses it and the model has the choice."""
    has_choice = MODELS[canonical_name(str(draft.values["workload.model"]))].fusible
    for key in filter(settings.has, _ATTENTION):
        word = settings.word(key) or ""
        if has_choice and word in _ATTENTION[key]:
            draft.set("workload.attention", _ATTENTION[key][word], key)
        else:
            draft.ignore(f"{key} = {word}", "attention is simulated as the model's and GPU's usual")


def _fsdp(draft: ScenarioDraft, config: Settings, trainer: tuple[str, ...], precision: str) -> None:
    """Set FSDP's sharding, prefetching and wrapping."""
    frees, per_node, source = _strategy(config, trainer)
    width = 4 if precision == "fp32" else 2
    if frees is None:
        draft.set("strategy.aggregation.kind", "allreduce", source)
        draft.assume("strategy.overlap.kind", "buckets", "DDP's own, of 25 MiB")
    else:
        # FSDP always gathers weights unit by unit, unlike DeepSpeed's stage 2.
        draft.set("strategy.aggregation.kind", "sharded", source)
        draft.set("strategy.aggregation.stage", 3, source)
        draft.set("strategy.aggregation.shard_group", "node" if per_node else "all", source)
        # By width: fp16 is sent like bf16.
        precision_source = "mixed_precision: weights and gradients travel in it"
        draft.set("strategy.aggregation.weight_bytes", width, precision_source)
        draft.set(
            "strategy.aggregation.gradients.dtype",
            "fp32" if width == 4 else "bf16",
            precision_source,
        )
        if not frees:
            draft.set("strategy.aggregation.reshard_after_forward", False, source)
        _ahead(draft, config)
        size = config.number("min_num_params")
        if size:
            gather_units(draft, size, config.path("min_num_params"))
            send_buckets(draft, size * width, config.path("min_num_params"))
        else:
            _units(draft, config)
    if config.flag("activation_checkpointing"):
        draft.set("workload.checkpoint", "full", config.path("activation_checkpointing"))
    offloads = [config.path("offload_params")] if config.flag("offload_params") else []
    offloads += ["fsdp: offload"] if "offload" in trainer else []
    for source in offloads[:1]:
        # torch's CPUOffload includes the optimiser.
        offload(draft, "parameters", "cpu", source)
        offload(draft, "optimizer", "cpu", source)


def _units(draft: ScenarioDraft, config: Settings) -> None:
    """Set the units if no size is given."""
    word, source = config.word("auto_wrap_policy", _WRAPS), config.path("auto_wrap_policy")
    if word == "no_wrap":
        gather_units(draft, _WHOLE_MODEL, source)
        draft.set("strategy.overlap.kind", "wfbp", source)
    elif word == "transformer_based_wrap":
        wrap_blocks(draft, source)
    else:
        why = "the file does not say which layers FSDP wraps: those of each block"
        draft.assume("strategy.aggregation.wrap", "block", why)
        draft.set("strategy.overlap.kind", "wfbp", "FSDP sends the gradients of a unit together")


def _strategy(config: Settings, trainer: tuple[str, ...]) -> tuple[bool | None, bool, str]:
    """Return whether weights are freed after forward, whether groups are nodes, and the source.

    None instead of the first if nothing is sharded.
    """
    for word in trainer:
        if word in _STRATEGIES:
            return *_STRATEGIES[word], "fsdp"
        if word not in _TRAINERS_OTHER_WORDS:
            raise ImportFileError(f"fsdp must be words such as full_shard, but got {word!r}")
    # FSDP 2 has only reshard_after_forward, whether weights are freed after the forward pass; it
    # also accepted the older words.
    for key, known in (("sharding_strategy", _STRATEGIES), ("reshard_after_forward", _RESHARD)):
        if config.has(key):
            return *known[config.word(key, known) or "full_shard"], config.path(key)
    return True, False, "fsdp_config: FULL_SHARD where nothing is said"


def _ahead(draft: ScenarioDraft, config: Settings) -> None:
    """Set how far ahead weights are gathered."""
    word = config.word("backward_prefetch", _PREFETCH)
    if word is not None:
        source = config.path("backward_prefetch")
        draft.set("strategy.aggregation.backward_prefetch", _PREFETCH[word], source)
    if config.has("forward_prefetch"):
        config.flag("forward_prefetch")
        why = "the host is taken to ask early enough in any case"
        draft.ignore(config.path("forward_prefetch"), why)
    limited = config.flag("limit_all_gathers")
    if limited is not None:
        source = config.path("limit_all_gathers")
        draft.set("strategy.aggregation.limit_all_gathers", limited, source)


def _read_deepspeed(draft: ScenarioDraft, config: Settings, folder: Path, precision: str) -> None:
    """Read accelerate's DeepSpeed keys, or the DeepSpeed file that they name."""
    file = config.text("deepspeed_config_file")
    if file is not None:
        add_deepspeed(draft, file, config.path("deepspeed_config_file"), folder, precision)
        return
    stage = config.number("zero_stage", least=0, most=3) or 0
    width = 4 if precision == "fp32" else 2
    source = "deepspeed_config.zero_stage"
    draft.set("strategy.aggregation.kind", "sharded" if stage else "allreduce", source)
    if stage:
        draft.set("strategy.aggregation.stage", stage, source)
        draft.set("strategy.aggregation.weight_bytes", width, "mixed_precision")
    send_gradients(draft, config, stage, width, "mixed_precision")
    set_passes(draft, config)
    for part, short in (("optimizer", "optimizer"), ("parameters", "param")):
        key = f"offload_{short}_device"
        offload(draft, part, config.word(key), config.path(key))
