"""Import YAML of Axolotl, LLaMA-Factory, torchtune and Composer (llm-foundry) as scenarios.

Each program has its own names for settings of Hugging Face's Trainer: a table has them, and
Trainer's importer reads the file by it. Other keys are reported as ignored. The names are from the
programs' documentation of 2025.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import partial
from typing import Any, NamedTuple

from dpsim.imports.accelerate import scenario_of_trainer
from dpsim.imports.reading import ImportFileError
from dpsim.imports.scenario_draft import ScenarioDraft, TrainingSizes
from dpsim.imports.settings import Settings, yaml_settings

_BATCH, _LENGTH, _MODEL = "per_device_train_batch_size", "max_seq_length", "model_name_or_path"
_CHECKPOINT = "gradient_checkpointing"
# By program, Trainer's names and the paths of the same settings in its files.
NAMES: Mapping[str, Mapping[str, str]] = {
    "axolotl": {
        _MODEL: "base_model",
        _BATCH: "micro_batch_size",
        _LENGTH: "sequence_len",
        "optim": "optimizer",
    },
    "llama-factory": {_LENGTH: "cutoff_len"},
    "torchtune": {
        _BATCH: "batch_size",
        _LENGTH: "tokenizer.max_seq_len",
        _CHECKPOINT: "enable_activation_checkpointing",
        "torch_compile": "compile",
    },
    "composer": {
        _MODEL: "model.pretrained_model_name_or_path",
        _BATCH: "device_train_microbatch_size",
        _LENGTH: "max_seq_len",
        _CHECKPOINT: "fsdp_config.activation_checkpointing",
        "mixed_precision": "precision",
        "optim": "optimizer.name",
    },
}
_COMPONENT = "model._component_"  # torchtune's


class _Adapters(NamedTuple):
    """The keys of a program's adapters.

    ``key`` is set to ``word`` where only adapters are trained; ``where`` is one of ``everywhere``
    (None: left out) where they are beside all linear layers.
    """

    key: str
    word: str
    rank: str
    where: str
    everywhere: tuple[Any, ...]


_ADAPTERS = {
    "axolotl": _Adapters("adapter", "lora", "lora_r", "lora_target_linear", (True,)),
    "llama-factory": _Adapters(
        "finetuning_type", "lora", "lora_rank", "lora_target", ("all", None)
    ),
    "torchtune": _Adapters(_COMPONENT, "lora", "lora_rank", "apply_lora_to_mlp", (True,)),
}


def scenario_from_dialect(
    program: str, content: bytes, name: str, sizes: TrainingSizes
) -> ScenarioDraft:
    """Return the scenario of a file of ``program``. Raises DpsimError for unsupported settings."""
    values = yaml_settings(content, name).whole()
    # Set after Trainer's own settings: path in the scenario, value, and source.
    fields: list[tuple[str, Any, str]] = []
    if program == "torchtune":
        fields += _torchtune(values)
    if program in _ADAPTERS:
        fields = _trainable(_ADAPTERS[program], values) + fields
    global_batch = values.get("global_train_batch_size")
    if isinstance(global_batch, int) and not isinstance(global_batch, bool) and global_batch > 0:
        del values["global_train_batch_size"]
        fields.append(("workload.global_batch", global_batch, "global_train_batch_size"))
    settings = Settings(values, names=NAMES[program])
    draft = scenario_of_trainer(settings, ScenarioDraft(name, program), sizes)
    for path, value, source in fields:
        draft.set(path, value, source)
    return draft


axolotl = partial(scenario_from_dialect, "axolotl")
llama_factory = partial(scenario_from_dialect, "llama-factory")
torchtune = partial(scenario_from_dialect, "torchtune")
composer = partial(scenario_from_dialect, "composer")


def _trainable(keys: _Adapters, values: dict[str, Any]) -> list[tuple[str, Any, str]]:
    """Return the trainable parameters if only adapters are trained, and remove their keys.

    Raises ImportFileError for 4-bit weights, which are not simulated.
    """
    kind = values.get(keys.key)
    if kind == "qlora" or values.get("load_in_4bit") is True:
        raise ImportFileError(
            f"{keys.key} must be {keys.word} or left out, since weights of 4 bits are not "
            f"simulated, but got {kind!r} (load_in_4bit: {values.get('load_in_4bit', False)})"
        )
    if kind in (keys.word, "full"):  # full is the simulated case
        del values[keys.key]
    if kind != keys.word:
        return []
    rank = values.pop(keys.rank, 8)
    if not isinstance(rank, int) or isinstance(rank, bool) or rank < 1:
        raise ImportFileError(f"{keys.rank} must be a whole number of at least 1, but got {rank!r}")
    fields: list[tuple[str, Any, str]] = [("workload.trainable.lora.rank", rank, keys.rank)]
    # A key with another value stays, to be reported as ignored.
    if values.get(keys.where) in keys.everywhere:
        setting = f"{keys.where} is {values.pop(keys.where, 'left out')}"
        fields.append(("workload.trainable.lora.on", "all-linear", setting))
    return fields


_VERSION = re.compile(r"(\d)_(\d)_")
_VARIANT = re.compile(r"_(base|instruct)$")


def _torchtune(values: dict[str, Any]) -> list[tuple[str, Any, str]]:
    """Translate dtype, the precision of weights, and components named by their class.

    Returns settings that Trainer's lack: paths in the scenario, values and sources.
    """
    fields = []
    if values.get("dtype") == "bf16":
        values.pop("dtype")
        values["bf16"] = True
        fields.append(("workload.parameter_dtype", "bf16", "dtype"))
    optimizer, kind = _component(values, "optimizer")
    if optimizer is not None:
        values["optim"] = {"adamw": "adamw_torch"}.get(kind, kind)
        if optimizer.pop("fused", False) is True:
            fields.append(("workload.optimizer_kernels", "fused", "optimizer.fused"))
    loss = values.get("loss")
    if isinstance(loss, dict) and str(loss.get("_component_")).endswith("CEWithChunkedOutputLoss"):
        del values["loss"]
        fields.append(("workload.cross_entropy", "chunked", "loss._component_"))
    model, name = _component(values, "model")
    if model is not None:
        kind, adapted, size = name.rpartition("lora_")
        if adapted:
            values[_COMPONENT] = kind + "lora"
            values |= {key: model.pop(key) for key in _ADAPTERS["torchtune"][2:4] if key in model}
        # The others are reported as ignored.
        values |= {f"model.{key}": value for key, value in values.pop("model").items()}
        # llama3_1_8b is Llama 3.1.
        values[_MODEL] = _VERSION.sub(r"\1.\2_", _VARIANT.sub("", size))
    # torchtune distributes by FSDP 2 (full_finetune_distributed, lora_finetune_distributed).
    values.setdefault("distributed_type", "FSDP")
    return fields


def _component(values: dict[str, Any], key: str) -> tuple[dict[str, Any] | None, str]:
    """Remove the class of a component; return the component and its class's name, if it has one."""
    part = values.get(key)
    if not isinstance(part, dict) or "_component_" not in part:
        return None, ""
    return part, str(part.pop("_component_")).rpartition(".")[2].lower()
