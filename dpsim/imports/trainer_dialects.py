"""Import YAML of Axolotl, LLaMA-Factory, torchtune and Composer (llm-foundry) as scenarios.

Each program has its own names for settings of Hugging Face's Trainer: a table translates them, and
Trainer's importer reads the result. Other keys are reported as ignored. The names are from the
programs' documentation of 2025.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from dpsim.imports.accelerate import scenario_of_trainer
from dpsim.imports.reading import ImportFileError
from dpsim.imports.scenario_draft import ScenarioDraft, TrainingSizes
from dpsim.imports.settings import Settings, yaml_settings

_BATCH, _PASSES = "per_device_train_batch_size", "gradient_accumulation_steps"
_LENGTH, _MODEL, _CHECKPOINT = "max_seq_length", "model_name_or_path", "gradient_checkpointing"
_COMPONENT = "model._component_"  # torchtune's


@dataclass(frozen=True, slots=True)
class Dialect:
    """A program's names: ``keys`` by Trainer's, each a path; ``values`` of words by key.

    ``lora`` has the key that enables adapters, its word for that, the key of their rank, the key
    that says beside which products they are, and its values for all linear layers (None: left out).
    """

    keys: Mapping[str, str]
    values: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    lora: tuple[str, str, str, str, tuple[Any, ...]] | None = None


_FLAGS = {"amp_bf16": {"bf16": True}, "amp_fp16": {"fp16": True}, "fp32": {}}
DIALECTS: Mapping[str, Dialect] = {
    "axolotl": Dialect(
        {
            _MODEL: "base_model",
            _BATCH: "micro_batch_size",
            _LENGTH: "sequence_len",
            "optim": "optimizer",
        },
        lora=("adapter", "lora", "lora_r", "lora_target_linear", (True,)),
    ),
    "llama-factory": Dialect(
        {_LENGTH: "cutoff_len"},
        lora=("finetuning_type", "lora", "lora_rank", "lora_target", ("all", None)),
    ),
    "torchtune": Dialect(
        {
            _BATCH: "batch_size",
            _LENGTH: "tokenizer.max_seq_len",
            _CHECKPOINT: "enable_activation_checkpointing",
            "torch_compile": "compile",
        },
        lora=(_COMPONENT, "lora", "lora_rank", "apply_lora_to_mlp", (True,)),
    ),
    "composer": Dialect(
        {
            _BATCH: "device_train_microbatch_size",
            _LENGTH: "max_seq_len",
            _CHECKPOINT: "fsdp_config.activation_checkpointing",
            _MODEL: "model.pretrained_model_name_or_path",
        },
        {"precision": _FLAGS},
    ),
}


def scenario_from_dialect(
    program: str, content: bytes, name: str, sizes: TrainingSizes
) -> ScenarioDraft:
    """Return the scenario of a file of ``program``. Raises DpsimError for unsupported settings."""
    dialect, values = DIALECTS[program], yaml_settings(content, name).whole()
    own = {trainers: own for trainers, own in dialect.keys.items() if _at(values, own) is not None}
    moved = {trainers: _take(values, path) for trainers, path in own.items()}
    for key, words in dialect.values.items():
        said = values.pop(key, None)
        if said is not None and str(said) not in words:
            raise ImportFileError(f"{key} must be one of {', '.join(words)}, but got {said!r:.60}")
        moved |= {} if said is None else words[str(said)]
    if program in _OTHERS:
        _OTHERS[program](values, moved)
    draft = ScenarioDraft(name, program, own_words=own)
    adapters = _adapters(dialect, values)
    found = scenario_of_trainer(Settings({**values, **moved}), draft, sizes)
    if adapters is not None and dialect.lora is not None:
        rank, where = adapters
        found.set("workload.trainable.lora.rank", rank, dialect.lora[2])
        if where is not None:
            found.set("workload.trainable.lora.on", "all-linear", where)
    together = values.get("global_train_batch_size")
    if isinstance(together, int) and not isinstance(together, bool) and together > 0:
        found.set("workload.global_batch", together, "global_train_batch_size")
        found.ignored = [each for each in found.ignored if each[0] != "global_train_batch_size"]
    for key, source in (("parameter_dtype", "dtype"), ("cross_entropy", "loss._component_")):
        if key in moved:
            found.set(f"workload.{key}", moved[key], source)
            found.ignored = [each for each in found.ignored if each[0] != key]
    return found


def _adapters(dialect: Dialect, values: dict[str, Any]) -> tuple[int, str | None] | None:
    """Return the rank of adapters if only they are trained, None if all weights are.

    Also returns what says that they are beside all linear layers, None if nothing does.

    Raises ImportFileError for 4-bit weights, which are not simulated.
    """
    if dialect.lora is None:
        return None
    key, word, rank, place, everywhere = dialect.lora
    if values.get(key) == "qlora" or values.get("load_in_4bit") is True:
        raise ImportFileError(
            f"{key} must be {word} or left out, since weights of 4 bits are not simulated, but got "
            f"{values.get(key)!r} (load_in_4bit: {values.get('load_in_4bit', False)})"
        )
    if values.get(key) != word:
        if values.get(key) == "full":
            del values[key]  # the simulated case
        return None
    del values[key]
    number = values.pop(rank, 8)
    if not isinstance(number, int) or isinstance(number, bool) or number < 1:
        raise ImportFileError(f"{rank} must be a whole number of at least 1, but got {number!r}")
    if values.get(place) not in everywhere:
        return number, None  # its key stays, to be reported as ignored
    return number, f"{place} is {values.pop(place, 'left out')}"


_ADAPTERS = ("lora_rank", "apply_lora_to_mlp")
_VERSION = re.compile(r"(\d)_(\d)_")
_VARIANT = re.compile(r"_(base|instruct)$")


def _torchtune(values: dict[str, Any], moved: dict[str, Any]) -> None:
    """Translate dtype, the precision of weights, and components named by their class."""
    if values.get("dtype") == "bf16":
        values.pop("dtype")
        moved |= {"bf16": True, "parameter_dtype": "bf16"}
    optimizer = values.get("optimizer")
    if isinstance(optimizer, dict) and "_component_" in optimizer:
        kind = str(optimizer.pop("_component_")).rpartition(".")[2].lower()
        moved["optim"] = {"adamw": "adamw_torch"}.get(kind, kind)
    loss = values.get("loss")
    if isinstance(loss, dict) and str(loss.get("_component_")).endswith("CEWithChunkedOutputLoss"):
        del values["loss"]
        moved["cross_entropy"] = "chunked"
    model = values.get("model")
    if isinstance(model, dict) and "_component_" in model:
        name = str(model.pop("_component_")).rpartition(".")[2].lower()
        kind, adapted, alone = name.rpartition("lora_")
        if adapted:
            values[_COMPONENT] = kind + "lora"
            values |= {key: model.pop(key) for key in _ADAPTERS if key in model}
        _spread(values, "model")
        # llama3_1_8b is Llama 3.1.
        moved[_MODEL] = _VERSION.sub(r"\1.\2_", _VARIANT.sub("", alone))
    # It is distributed by FSDP 2 (full_finetune_distributed, lora_finetune_distributed).
    moved.setdefault("distributed_type", "FSDP")


def _composer(values: dict[str, Any], moved: dict[str, Any]) -> None:
    """Translate fsdp_config, whose sharding_strategy is accelerate's fsdp_sharding_strategy."""
    optimizer = values.get("optimizer")
    if isinstance(optimizer, dict) and "name" in optimizer:
        name = str(optimizer.pop("name"))
        moved["optim"] = {"decoupled_adamw": "adamw_torch"}.get(name, name)
    config = values.get("fsdp_config")
    if isinstance(config, dict):
        config = {key: value for key, value in config.items() if key != "activation_checkpointing"}
        if "sharding_strategy" in config:
            config["fsdp_sharding_strategy"] = config.pop("sharding_strategy")
        values["fsdp_config"] = config
        moved["distributed_type"] = "FSDP"


_OTHERS: Mapping[str, Callable[[dict[str, Any], dict[str, Any]], None]] = {
    "torchtune": _torchtune,
    "composer": _composer,
}


def _spread(values: dict[str, Any], section: str) -> None:
    """Replace a section of which some keys were read by the others, to be reported as ignored."""
    values |= {f"{section}.{key}": value for key, value in values.pop(section).items()}


def _at(values: Mapping[str, Any], path: str) -> Any:
    """Return the value at a path; None if there is none, or "auto"."""
    found: Any = values
    for key in path.split("."):
        found = found.get(key) if isinstance(found, dict) else None
    return found


def _take(values: dict[str, Any], path: str) -> Any:
    """Remove and return the value at a path."""
    *above, last = path.split(".")
    return (_at(values, ".".join(above)) if above else values).pop(last)
