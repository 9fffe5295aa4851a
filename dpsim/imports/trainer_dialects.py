"""Import YAML of Axolotl, LLaMA-Factory, torchtune and Composer (llm-foundry) as scenarios.

Each program has its own names for settings of Hugging Face's Trainer: a table translates them, and
Trainer's importer reads the result. Other keys are reported as ignored. The names are from the
programs' documentation of 2025.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from dpsim.imports.accelerate import scenario_of_trainer
from dpsim.imports.reading import ImportFileError
from dpsim.imports.scenario_draft import ScenarioDraft, TrainingSizes
from dpsim.imports.settings import Settings, yaml_settings

_BATCH, _PASSES = "per_device_train_batch_size", "gradient_accumulation_steps"
_LENGTH, _MODEL, _CHECKPOINT = "max_seq_length", "model_name_or_path", "gradient_checkpointing"


@dataclass(frozen=True, slots=True)
class Dialect:
    """A program's names: ``keys`` by Trainer's, each a path; ``values`` of words by key.

    ``lora`` has the key that enables adapters, its word for that, and the key of their rank.
    """

    keys: Mapping[str, str]
    values: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    lora: tuple[str, str, str] | None = None


_FLAGS = {"amp_bf16": {"bf16": True}, "amp_fp16": {"fp16": True}, "fp32": {}}
DIALECTS: Mapping[str, Dialect] = {
    "axolotl": Dialect(
        {
            _MODEL: "base_model",
            _BATCH: "micro_batch_size",
            _LENGTH: "sequence_len",
            "optim": "optimizer",
        },
        lora=("adapter", "lora", "lora_r"),
    ),
    "llama-factory": Dialect(
        {_LENGTH: "cutoff_len"}, lora=("finetuning_type", "lora", "lora_rank")
    ),
    "torchtune": Dialect(
        {
            _BATCH: "batch_size",
            _LENGTH: "tokenizer.max_seq_len",
            _CHECKPOINT: "enable_activation_checkpointing",
            "torch_compile": "compile",
        }
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
        found.set("workload.trainable.lora.rank", adapters, dialect.lora[2])
    together = values.get("global_train_batch_size")
    if isinstance(together, int) and not isinstance(together, bool) and together > 0:
        found.set("workload.global_batch", together, "global_train_batch_size")
        found.ignored = [each for each in found.ignored if each[0] != "global_train_batch_size"]
    if moved.get("parameter_dtype") == "bf16":
        found.set("workload.parameter_dtype", "bf16", "dtype")
        found.ignored = [each for each in found.ignored if each[0] != "parameter_dtype"]
    return found


def _adapters(dialect: Dialect, values: dict[str, Any]) -> int | None:
    """Return the rank of adapters if only they are trained, None if all weights are.

    Raises ImportFileError for 4-bit weights, which are not simulated.
    """
    if dialect.lora is None:
        return None
    key, word, rank = dialect.lora
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
    return number


def _torchtune(values: dict[str, Any], moved: dict[str, Any]) -> None:
    """Translate dtype, the precision of weights, and components named by their class."""
    if values.get("dtype") == "bf16":
        values.pop("dtype")
        moved |= {"bf16": True, "parameter_dtype": "bf16"}
    optimizer = values.get("optimizer")
    if isinstance(optimizer, dict) and "_component_" in optimizer:
        kind = str(optimizer.pop("_component_")).rpartition(".")[2].lower()
        moved["optim"] = {"adamw": "adamw_torch"}.get(kind, kind)
    # Full finetuning is distributed by FSDP 2 (full_finetune_distributed).
    moved.setdefault("distributed_type", "FSDP")


def _composer(values: dict[str, Any], moved: dict[str, Any]) -> None:
    """Translate fsdp_config, whose sharding_strategy is accelerate's fsdp_sharding_strategy."""
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
