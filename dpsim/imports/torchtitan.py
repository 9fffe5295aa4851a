"""A scenario from a job configuration of torchtitan, a TOML file.

Keys: torchtitan's ``config_manager.py`` and ``job_config.py``; where they have moved, the older
place is read too.
"""

from __future__ import annotations

from dpsim.imports.reading import ImportFileError
from dpsim.imports.scenario_draft import (
    ScenarioDraft,
    TrainingSizes,
    gpus_of,
    name_model,
    place_workers,
    use_nccl,
    wrap_blocks,
)
from dpsim.imports.settings import Settings, toml_settings
from dpsim.workload import MODELS

_OTHER_DEGREES = (
    "tensor_parallel_degree",
    "pipeline_parallel_degree",
    "context_parallel_degree",
    "expert_parallel_degree",
)
_DTYPES = {"bfloat16": 2, "float16": 2, "float32": 4}
_NAMES = {"bfloat16": "bf16", "float16": "fp16", "float32": "fp32"}
_RESHARD = {"default": True, "always": True, "never": False}
_CHECKPOINTS = {"none": "none", "full": "full", "selective": "selective"}
_OPTIMIZERS = {"adam": "adam", "adamw": "adamw", "sgd": "sgd"}


def scenario_from_torchtitan(content: bytes, name: str, sizes: TrainingSizes) -> ScenarioDraft:
    """The scenario that a job's TOML describes; raises ImportFileError for what cannot be."""
    settings = toml_settings(content)
    draft = ScenarioDraft(name, "torchtitan")
    training, parallel = settings.section("training"), settings.section("parallelism")
    replicas, shards = _degrees(training, parallel, settings.section("experimental"))
    workers = replicas * shards if shards else None
    if shards is None and sizes.nodes and sizes.gpus_per_node:
        workers = sizes.nodes * sizes.gpus_per_node
    place_workers(draft, sizes, workers, "data_parallel degrees" if workers else "")
    name_model(draft, sizes, _model(settings.section("model")))
    _training(draft, training, sizes)
    fp8 = _program(draft, settings, training)
    widths = _precision(draft, training, fp8=fp8)
    each = shards or _rest(draft, replicas)
    if each > 1 or replicas == 1:
        _sharding(draft, training, parallel, widths)
    else:
        draft.set("strategy.aggregation.kind", "allreduce", "data_parallel_shard_degree: 1")
    if each > 1 and replicas > 1:
        draft.set("strategy.aggregation.shard_group", each, "data_parallel degrees")
    use_nccl(draft)
    for key in settings.left():
        draft.ignore(key)
    return draft


def _degrees(*sections: Settings) -> tuple[int, int | None]:
    """Replicas and shards; None for all that are left.

    Raises ImportFileError where something else than data is divided.
    """
    replicas, shards = 1, None
    for section in sections:
        for key in _OTHER_DEGREES:
            degree = section.number(key, least=-1)
            if degree is not None and degree > 1:
                raise ImportFileError(
                    f"{section.path(key)} must be 1, since data parallelism alone is simulated, "
                    f"but got {degree}"
                )
        replicas = section.number("data_parallel_replicate_degree") or replicas
        found = section.number("data_parallel_shard_degree", least=-1)
        # -1: all that are left, which only the number of workers tells.
        shards = found if found is not None and found > 0 else shards
    return replicas, shards


def _rest(draft: ScenarioDraft, replicas: int) -> int:
    """The workers of a shard group, where all that are left divide the model."""
    workers = gpus_of(draft)
    shards, rest = divmod(workers, replicas)
    if rest or not shards:
        raise ImportFileError(
            f"data_parallel_replicate_degree must divide the {workers} workers, but got "
            f"{replicas} (--nnodes, --nproc-per-node)"
        )
    return shards


def _model(section: Settings) -> tuple[str, str] | None:
    """The catalogue's name of a model such as llama3 with flavor 8B."""
    family, flavor = section.word("name"), section.word("flavor")
    if family is None or flavor is None:
        return None
    # Of some sizes there is only a Llama 3.1, which torchtitan calls llama3.
    for name in (f"{family}-{flavor}", f"{family}.1-{flavor}"):
        if name in MODELS:
            return name, "model.name and model.flavor"
    return None


def _training(draft: ScenarioDraft, training: Settings, sizes: TrainingSizes) -> None:
    """Say the batch and the length of sequences."""
    newer = training.has("local_batch_size")
    key = "local_batch_size" if newer else "batch_size"
    batch = training.number(key)
    if sizes.batch is not None:
        draft.set("workload.batch_per_gpu", sizes.batch, "--batch")
    elif batch is not None:
        draft.set("workload.batch_per_gpu", batch, f"training.{key}")
    else:
        draft.assume("workload.batch_per_gpu", 1, "the file does not say; --batch N")
    together = training.number("global_batch_size", least=-1)
    if together is not None and together > 0:
        draft.set("workload.global_batch", together, "training.global_batch_size")
    length = training.number("seq_len")
    if length is not None and sizes.sequence_length is None:
        draft.set("workload.sequence_length", length, "training.seq_len")


def _program(draft: ScenarioDraft, settings: Settings, training: Settings) -> bool:
    """Say what is compiled, computed again and updated; whether linear layers are in fp8."""
    compiled = settings.section("compile").flag("enable")
    if compiled or training.flag("compile"):
        source = "compile.enable" if compiled else "training.compile"
        draft.set("workload.execution", "compile", source)
    kind = settings.section("optimizer").word("name", _OPTIMIZERS)
    if kind is None:
        draft.assume("workload.optimizer", "adamw", "torchtitan's default")
    else:
        draft.set("workload.optimizer", _OPTIMIZERS[kind], "optimizer.name")
    again = settings.section("activation_checkpoint")
    # torchtitan's defaults: selective, of every second block.
    mode = again.word("mode", _CHECKPOINTS) or "selective"
    option = again.word("selective_ac_option") or "2"
    if mode == "selective" and option.isdecimal() and int(option):
        source = "activation_checkpoint.selective_ac_option"
        draft.set("workload.checkpoint.every", int(option), source)
    else:
        draft.set("workload.checkpoint", mode, "activation_checkpoint.mode")
    return _in_fp8(settings)


def _in_fp8(settings: Settings) -> bool:
    older = settings.section("float8").flag("enable_float8_linear")
    return bool(older) or "float8" in settings.section("model").words("converters")


def _precision(draft: ScenarioDraft, training: Settings, *, fp8: bool) -> tuple[int, int]:
    """Say the precision; the bytes of a weight and of a gradient on their way."""
    weights = training.word("mixed_precision_param", _DTYPES) or "bfloat16"
    reduced = training.word("mixed_precision_reduce", _DTYPES) or "float32"
    if fp8:
        draft.set("workload.precision", "fp8", "float8")
    else:
        draft.set("workload.precision", _NAMES[weights], "training.mixed_precision_param")
    return _DTYPES[weights], _DTYPES[reduced]


def _sharding(
    draft: ScenarioDraft,
    training: Settings,
    parallel: Settings,
    widths: tuple[int, int],
) -> None:
    """Say that FSDP divides everything, a unit a block."""
    weight, gradient = widths
    draft.set("strategy.aggregation.kind", "sharded", "torchtitan's FSDP 2")
    draft.set("strategy.aggregation.stage", 3, "torchtitan's FSDP 2")
    draft.set("strategy.aggregation.weight_bytes", weight, "training.mixed_precision_param")
    dtype, source = "fp32" if gradient == 4 else "bf16", "training.mixed_precision_reduce"
    draft.set("strategy.aggregation.gradients.dtype", dtype, source)
    # The key has moved from the first to the second.
    for section in (training, parallel):
        said = section.word("fsdp_reshard_after_forward", _RESHARD)
        if said is not None:
            path = "strategy.aggregation.reshard_after_forward"
            draft.set(path, _RESHARD[said], section.path("fsdp_reshard_after_forward"))
    # FSDP 2 reduces gradients in every pass unless the program asks otherwise.
    draft.set("strategy.aggregation.gradients.sync_each_pass", True, "torchtitan's FSDP 2")
    wrap_blocks(draft, "torchtitan wraps each block")
    if training.flag("enable_cpu_offload"):
        draft.ignore(
            "training.enable_cpu_offload",
            "offloading is not simulated: it saves memory and costs time",
        )
