"""Import a job configuration of torchtitan, a TOML file, as a scenario.

Keys: torchtitan's ``config_manager.py`` and ``job_config.py``; the older places of keys that have
moved are read too.
"""

from __future__ import annotations

from dpsim.imports.reading import ImportFileError
from dpsim.imports.scenario_draft import (
    ASSUMED,
    ScenarioDraft,
    TrainingSizes,
    gpus_of,
    left_out,
    name_model,
    offload,
    place_workers,
    send_buckets,
    set_batch,
    set_optimizer,
    use_nccl,
    wrap_blocks,
)
from dpsim.imports.settings import Settings, toml_settings

_DTYPES = {"bfloat16": "bf16", "float16": "fp16", "float32": "fp32"}
_RESHARD = {"default": True, "always": True, "never": False}
_KERNELS = {"for-loop": "loop", "foreach": "foreach", "fused": "fused"}
_CHECKPOINTS = {"none": "none", "full": "full", "selective": "selective"}
_DDP_BUCKET = 100 * 2**20  # bytes, in apply_ddp
_OPTIMIZERS = {"adam": "adam", "adamw": "adamw", "sgd": "sgd"}
_EARLY_STEP = (
    "the update is simulated after backward: inside it, gradients are freed at once, which saves "
    "their memory"
)
_PURE_HALF = (
    "weights, gradients and the optimizer's state are simulated in fp32: in half precision they "
    "take half the memory, and the update half the time"
)


def scenario_from_torchtitan(content: bytes, name: str, sizes: TrainingSizes) -> ScenarioDraft:
    """Return the scenario of a job's TOML. Raises ImportFileError for unsupported settings."""
    settings = toml_settings(content)
    settings.refuse_other_parallelism()
    _refuse_replica_groups(settings.section("fault_tolerance"))
    draft = ScenarioDraft(name, "torchtitan")
    training, parallel = settings.section("training"), settings.section("parallelism")
    replicas, shards = _degrees(training, parallel, settings.section("experimental"))
    workers = replicas * shards if shards else None
    place_workers(draft, sizes, workers, "data_parallel degrees" if workers else "")
    _model(draft, sizes, settings.section("model"))
    _training(draft, training, sizes)
    fp8 = _program(draft, settings, training)
    _precision(draft, training, fp8=fp8)
    each = shards or _rest(draft, replicas)
    if each > 1 or replicas == 1:
        _sharding(draft, training, parallel)
    else:
        draft.set("strategy.aggregation.kind", "allreduce", "data_parallel_shard_degree: 1")
        # Its loop over passes has no no_sync().
        draft.set("strategy.aggregation.sync_each_pass", True, "torchtitan's DDP")
        send_buckets(draft, _DDP_BUCKET, "torchtitan's DDP: bucket_cap_mb=100")
    if each > 1 and replicas > 1:
        draft.set("strategy.aggregation.shard_group", each, "data_parallel degrees")
    use_nccl(draft)
    left_out(draft, settings)
    return draft


def _refuse_replica_groups(section: Settings) -> None:
    """Raise ImportFileError for torchft, whose replica groups synchronise in their own way."""
    if section.flag("enable"):
        raise ImportFileError(
            "fault_tolerance.enable must be false, since torchft's replica groups are not read, "
            "but got true"
        )


def _degrees(*sections: Settings) -> tuple[int, int | None]:
    """Return the replicas and shards; None for all that are left."""
    replicas, shards = 1, None
    for section in sections:
        replicas = section.number("data_parallel_replicate_degree") or replicas
        found = section.number("data_parallel_shard_degree", least=-1)
        # -1 means all that are left, which requires the number of workers.
        shards = found if found is not None and found > 0 else shards
    return replicas, shards


def _rest(draft: ScenarioDraft, replicas: int) -> int:
    """Return the workers of a shard group if all that are left share the model."""
    workers = gpus_of(draft)
    shards, rest = divmod(workers, replicas)
    if rest or not shards:
        raise ImportFileError(
            f"data_parallel_replicate_degree must divide the {workers} workers, but got "
            f"{replicas} (--nodes, --gpus-per-node)"
        )
    return shards


def _model(draft: ScenarioDraft, sizes: TrainingSizes, section: Settings) -> None:
    """Set the catalogue's name of a model such as llama3 with flavor 8B."""
    family, flavor = section.word("name"), section.word("flavor")
    if family is None and flavor is None:
        name_model(draft, sizes)
        return
    name = f"{family or 'llama3'} {flavor or 'debugmodel'}"  # torchtitan's defaults
    # Some sizes only exist as Llama 3.1, which torchtitan calls llama3.
    spellings = (name.replace(" ", "-"), name.replace(" ", ".1-"))
    name_model(draft, sizes, (name, "model.name and model.flavor"), spellings)


def _training(draft: ScenarioDraft, training: Settings, sizes: TrainingSizes) -> None:
    """Set the batch and the sequence length."""
    newer = training.has("local_batch_size")
    key = "local_batch_size" if newer else "batch_size"
    batch = training.number(key)
    set_batch(draft, sizes, batch, f"training.{key}", 8, "torchtitan's default")
    whole = training.number("global_batch_size", least=-1)
    if whole is not None and whole > 0:
        draft.set("workload.global_batch", whole, "training.global_batch_size")
    length = training.number("seq_len")
    if sizes.sequence_length is not None:
        return
    if length is None:
        why = "torchtitan's default; --sequence-length N"
        draft.assume("workload.sequence_length", 2048, why)
    else:
        draft.set("workload.sequence_length", length, "training.seq_len")


def _program(draft: ScenarioDraft, settings: Settings, training: Settings) -> bool:
    """Set compilation, recomputation and the optimiser; return whether linear layers are in fp8."""
    compiled = settings.section("compile").flag("enable")
    if compiled or training.flag("compile"):
        source = "compile.enable" if compiled else "training.compile"
        draft.set("workload.execution", "compile", source)
    optimizer = settings.section("optimizer")
    if optimizer.flag("early_step_in_backward"):
        draft.ignore("optimizer.early_step_in_backward", _EARLY_STEP)
    kind = optimizer.word("name", _OPTIMIZERS)
    set_optimizer(draft, kind, _OPTIMIZERS, "optimizer.name", "torchtitan's default")
    kernels = optimizer.word("implementation", _KERNELS)
    if kernels is not None:
        draft.set("workload.optimizer_kernels", _KERNELS[kernels], "optimizer.implementation")
    _set_checkpoint(draft, settings.section("activation_checkpoint"))
    return _in_fp8(draft, settings)


def _set_checkpoint(draft: ScenarioDraft, section: Settings) -> None:
    """Set which activations are recomputed."""
    mode, option = section.word("mode", _CHECKPOINTS), section.word("selective_ac_option")
    if mode is None:
        draft.assume("workload.checkpoint.every", 2, "torchtitan's default: every second block")
    elif mode == "selective" and option != "op":
        # Without the option it is every second block too.
        number = option or "2"
        if not number.isdecimal() or not int(number):
            raise ImportFileError(
                "activation_checkpoint.selective_ac_option must be op or a whole number from 1 on, "
                f"but got {number!r}"
            )
        source = "activation_checkpoint.selective_ac_option"
        draft.set("workload.checkpoint.every", int(number), source)
    else:
        draft.set("workload.checkpoint", mode, "activation_checkpoint.mode")


def _in_fp8(draft: ScenarioDraft, settings: Settings) -> bool:
    in_fp8 = bool(settings.section("float8").flag("enable_float8_linear"))  # older
    for converter in settings.section("model").words("converters"):
        # Newer versions write quantize.linear.float8.
        if converter.rpartition(".")[2] == "float8":
            in_fp8 = True
        else:
            what = "products are simulated in the precision of mixed precision"
            draft.ignore(f"model.converters: {converter}", what)
    return in_fp8


def _precision(draft: ScenarioDraft, training: Settings, *, fp8: bool) -> None:
    """Set the precision of matrix products, and record which settings of weights are ignored."""
    weights = training.word("mixed_precision_param", _DTYPES)
    kept = training.word("dtype", _DTYPES)
    if kept in ("bfloat16", "float16"):
        draft.ignore(f"training.dtype = {kept}", _PURE_HALF)
    if fp8:
        draft.set("workload.precision", "fp8", "float8")
    else:
        source = _source(training, "mixed_precision_param")
        draft.set("workload.precision", _DTYPES[weights or "bfloat16"], source)


def _source(training: Settings, key: str) -> str:
    """Return the source of a data type."""
    return training.path(key) if training.has(key) else f"{ASSUMED}torchtitan's default"


def _sharding(draft: ScenarioDraft, training: Settings, parallel: Settings) -> None:
    """Set that FSDP shards everything, a unit per block."""
    draft.set("strategy.aggregation.kind", "sharded", "torchtitan's FSDP 2")
    draft.set("strategy.aggregation.stage", 3, "torchtitan's FSDP 2")
    weights = _DTYPES[training.word("mixed_precision_param", _DTYPES) or "bfloat16"]
    source = _source(training, "mixed_precision_param")
    draft.set("strategy.aggregation.weight_bytes", 4 if weights == "fp32" else 2, source)
    gradients = _DTYPES[training.word("mixed_precision_reduce", _DTYPES) or "float32"]
    source = _source(training, "mixed_precision_reduce")
    # By width: fp16 is sent like bf16.
    dtype = "fp32" if gradients == "fp32" else "bf16"
    draft.set("strategy.aggregation.gradients.dtype", dtype, source)
    # The key has moved from the first section to the second.
    for section in (training, parallel):
        word = section.word("fsdp_reshard_after_forward", _RESHARD)
        if word is not None:
            path = "strategy.aggregation.reshard_after_forward"
            draft.set(path, _RESHARD[word], section.path("fsdp_reshard_after_forward"))
    # FSDP 2 reduces gradients in every pass unless the program asks otherwise.
    draft.set("strategy.aggregation.gradients.sync_each_pass", True, "torchtitan's FSDP 2")
    wrap_blocks(draft, "torchtitan wraps each block")
    if training.flag("enable_cpu_offload"):
        offload(draft, "parameters", "cpu", "training.enable_cpu_offload")
        offload(draft, "optimizer", "cpu", "training.enable_cpu_offload")
