"""A scenario from a DeepSpeed configuration, ds_config.json.

Keys and their defaults: DeepSpeed's documentation, "DeepSpeed Configuration JSON".
"""

from __future__ import annotations

import os
from pathlib import Path

from dpsim.imports.reading import ImportFileError, read_input
from dpsim.imports.scenario_draft import (
    ASSUMED,
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
)
from dpsim.imports.settings import Settings, json_settings
from dpsim.workload import build_model

_REDUCE_BUCKET = 500_000_000  # elements, the default
_PREFETCH_BUCKET = 50_000_000
_OPTIMIZERS = {
    "adagrad": "adagrad",
    "adam": "adam",
    "adamw": "adamw",
    "fusedadam": "adam",
    "lamb": "lamb",
    "sgd": "sgd",
}
_COMPRESSING_OPTIMIZERS = ("onebitadam", "zerooneadam", "onebitlamb")
_AUTO = "Hugging Face's Trainer fills it in"
_WIDTHS = {"fp32": 4, "fp16": 2, "bf16": 2, "bfp16": 2}


def scenario_from_deepspeed(content: bytes, name: str, sizes: TrainingSizes) -> ScenarioDraft:
    """Return the scenario of a ds_config.json. Raises ImportFileError for unsupported settings."""
    settings = json_settings(content)
    draft = ScenarioDraft(name, "DeepSpeed")
    settings.refuse_other_parallelism()
    workers, source = _batches(draft, settings, sizes)
    place_workers(draft, sizes, workers, source)
    name_model(draft, sizes)
    width = _precision(draft, settings)
    _optimizer(draft, settings.section("optimizer"))
    _zero(draft, settings, width)
    use_nccl(draft)
    left_out(draft, settings)
    return draft


def add_deepspeed(draft: ScenarioDraft, file: str, key: str, folder: Path, precision: str) -> None:
    """Add the settings of the DeepSpeed configuration ``file``, named by a trainer's ``key``.

    For auto the trainer's own settings apply, such as its ``precision``, which are already in
    ``draft``; the file's precision and optimizer replace the trainer's. Raises DpsimError for a
    missing file, and if their batches disagree.
    """
    # Trainers are started in a folder of the user's choice, such as that of a repository.
    # Path.is_file raises where a name is too long.
    path = next((place for place in (folder / file, Path(file)) if os.path.isfile(place)), None)
    if path is None:
        raise ImportFileError(
            f"{key} must name a file, by its path from this one or from the current folder, but "
            f"got {file!r}"
        )
    content = read_input(path)
    draft.program += f", with {file} of DeepSpeed"
    try:
        settings = json_settings(content)
        settings.refuse_other_parallelism()
        _fill_in(draft, settings)
        width = _precision(draft, settings, precision)
        if settings.section("optimizer").has("type"):
            _optimizer(draft, settings.section("optimizer"))
        _zero(draft, settings, width)
        left_out(draft, settings)
    except ImportFileError as problem:
        raise problem.of(path) from None


def _fill_in(draft: ScenarioDraft, settings: Settings) -> None:
    """Set the batch of a DeepSpeed configuration, unless it leaves that to the trainer."""
    batch = "workload.batch_per_gpu"
    for key, path in (
        ("train_micro_batch_size_per_gpu", batch),
        ("gradient_accumulation_steps", "workload.gradient_accumulation"),
        ("train_batch_size", "workload.global_batch"),
    ):
        value, here = settings.number(key), draft.values.get(path)
        # Mark auto as read: the trainer's value is already in the draft.
        settings.is_open(key)
        if value is None or draft.sources.get(path) == "--batch":
            continue
        if here not in (None, value) and not draft.is_assumed(path):
            raise ImportFileError(
                f"{key} must be auto or {here}, as {draft.sources[path]} says, but got {value}"
            )
        draft.set(path, value, key)
    if "workload.global_batch" in draft.values and draft.is_assumed(batch):
        del draft.values[batch]


def _batches(
    draft: ScenarioDraft, settings: Settings, sizes: TrainingSizes
) -> tuple[int | None, str]:
    """Set the batch and its passes; return the number of workers if the sizes determine it."""
    whole = settings.number("train_batch_size")
    micro = settings.number("train_micro_batch_size_per_gpu")
    # From the whole batch the micro batch follows.
    if sizes.batch is not None or micro is not None or whole is None:
        set_batch(draft, sizes, micro, "train_micro_batch_size_per_gpu")
    passes = set_passes(draft, settings)
    if passes is None and settings.is_open("gradient_accumulation_steps"):
        draft.assume(
            "workload.gradient_accumulation", 1, f"gradient_accumulation_steps is auto: {_AUTO}"
        )
    if whole is None:
        return None, ""
    if micro is None or passes is None or sizes.batch is not None:
        draft.set("workload.global_batch", whole, "train_batch_size")
        if sizes.batch is not None and passes is not None:
            # A changed micro batch determines the passes by the whole batch.
            del draft.values["workload.gradient_accumulation"]
        return None, ""
    # The number of workers follows from whole batch = micro batch x passes x workers.
    workers, rest = divmod(whole, micro * passes)
    if rest or not workers:
        raise ImportFileError(
            "train_batch_size must be a multiple of train_micro_batch_size_per_gpu x "
            f"gradient_accumulation_steps = {micro * passes}, but got {whole}"
        )
    return workers, "train_batch_size / micro batch / accumulation steps"


def _precision(draft: ScenarioDraft, settings: Settings, filled_in: str | None = None) -> int:
    """Set the precision; return the bytes of a weight and of a gradient as they are sent.

    ``filled_in`` is the precision of the trainer's configuration, if it is in the draft.
    """
    left_open = []
    for key in ("bf16", "fp16", "bfloat16"):
        section = settings.section(key)
        chosen = key.replace("bfloat16", "bf16")
        if section.flag("enabled"):
            draft.set("workload.precision", chosen, f"{key}.enabled")
            return 2
        if section.is_open("enabled"):
            left_open.append(chosen)
    if filled_in is not None:
        return _WIDTHS.get(filled_in, 2)
    if left_open:
        # Trainer's users choose the first one on GPUs that have it.
        why = f"enabled is auto: {_AUTO}, which may also say fp32"
        draft.assume("workload.precision", left_open[0], why)
        return 2
    draft.set("workload.precision", "fp32", "neither bf16.enabled nor fp16.enabled")
    return 4


def _optimizer(draft: ScenarioDraft, section: Settings) -> None:
    kind = section.word("type")
    if kind in _COMPRESSING_OPTIMIZERS:
        raise ImportFileError(
            f"optimizer.type must be an optimizer that sends whole gradients, but got {kind!r}, "
            "which compresses them: give strategy.compression in a scenario of your own"
        )
    set_optimizer(draft, kind, _OPTIMIZERS, "optimizer.type")


def _zero(draft: ScenarioDraft, settings: Settings, width: int) -> None:
    """Set the sharding, how gradients are sent, and the offloading."""
    zero = settings.section("zero_optimization")
    stage = zero.number("stage", least=0, most=3) or 0
    travels = settings.word("communication_data_type", _WIDTHS)
    width_source = "communication_data_type" if travels else "gradients of the precision"
    carried = width if travels is None else _WIDTHS[travels]
    source = "zero_optimization.stage" if stage else "zero_optimization.stage: 0 or none"
    draft.set("strategy.aggregation.kind", "sharded" if stage else "allreduce", source)
    if stage:
        draft.set("strategy.aggregation.stage", stage, source)
        draft.set("strategy.aggregation.weight_bytes", width, "weights of the precision")
    send_gradients(draft, zero, stage, carried, width_source)
    for key, part in (("offload_optimizer", "optimizer"), ("offload_param", "parameters")):
        offload(draft, part, zero.section(key).word("device"), f"zero_optimization.{key}.device")


def send_gradients(
    draft: ScenarioDraft, zero: Settings, stage: int, carried: int, width_source: str
) -> None:
    """Set how DeepSpeed sends gradients of ``carried`` bytes, and gathers weights, in a stage.

    Keys of ``zero`` count before the defaults; ``width_source`` says where the width is from.
    """
    if stage:
        draft.set(
            "strategy.aggregation.gradients.dtype", "fp32" if carried == 4 else "bf16", width_source
        )
    elif carried == 2:
        # An all-reduce sends fp32 unless a codec says otherwise.
        draft.set("strategy.compression.kind", "cast", width_source)
    if stage >= 2:
        # Sharded gradients leave no whole one in which to accumulate passes.
        partitioned = "stages 2 and 3 reduce gradients in every pass"
        draft.set("strategy.aggregation.gradients.sync_each_pass", True, partitioned)
    if stage == 3:
        size, source = _elements(draft, zero, "stage3_prefetch_bucket_size", _PREFETCH_BUCKET, 0.9)
        gather_units(draft, size, source)
    bucket, source = _elements(draft, zero, "reduce_bucket_size", _REDUCE_BUCKET, 1)
    # overlap_comm is on by default in stage 3 only.
    overlaps = zero.flag("overlap_comm")
    if overlaps or (overlaps is None and stage == 3):
        given, default = zero.path("overlap_comm"), "DeepSpeed's default in stage 3"
        kind = given if overlaps else default
        send_buckets(draft, bucket * carried, source, kind)
    else:
        draft.set("strategy.overlap.kind", "sequential", zero.path("overlap_comm"))


def _elements(
    draft: ScenarioDraft, zero: Settings, key: str, usual: int, share: float
) -> tuple[int, str]:
    """Return a bucket's elements and their source: the file, Trainer's rule, or the default.

    For auto, Trainer fills in ``share`` of the square of the model's hidden size.
    """
    value = zero.number(key, least=0)
    if value:
        return value, zero.path(key)
    if not zero.is_open(key):
        return usual, f"{ASSUMED}DeepSpeed's default"
    name = draft.values["workload.model"]
    width = _hidden_size(str(name))
    if width is None:
        return usual, f"{ASSUMED}DeepSpeed's default; {zero.path(key)} is auto: {_AUTO}"
    rule = f"{share:g} x hidden size^2" if share < 1 else "hidden size^2"
    why = f"{zero.path(key)} is auto: Hugging Face's Trainer fills in {rule}, {width:,} of {name}"
    return int(share * width**2), f"{ASSUMED}{why}"


def _hidden_size(name: str) -> int | None:
    """Return the width of a model of text, which its first linear layer reads; else None."""
    model = build_model(name)
    shapes = (layer.shape for layer in model.layers if layer.shape and layer.kind == "linear")
    return next((inner for _, inner, _ in shapes), None) if model.tokens else None
