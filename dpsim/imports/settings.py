"""Configurations of training programs, read key by key, recording which keys are used."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

from dpsim.imports.reading import ImportFileError

_AUTO = "auto"  # in files for Hugging Face's Trainer, which fills the value in
_LONGEST_SHOWN = 60
_LARGEST = 2**40

# Degrees of model parallelism, in the spellings of all these programs.
_DEGREE = re.compile(
    r"(\w+_)?"
    r"((tensor|pipeline|context|sequence|expert|expert_tensor|model)(_model)?_parallel_(degree|size)"
    r"|(tp|pp|cp|sp|ep|etp)_(degree|size)|autotp_size)"
)


# The effect of ignored keys on a predicted step.
_CLIPPING = (
    "clipping is not simulated: it reads all gradients and sums up one number over all workers"
)
_IN_MEMORY = "samples are simulated as ready in memory"
_FULL_LENGTH = "all sequences are simulated at their full length, which packed samples fill"
_FREED_EFFECT = "weights are simulated as freed after use, and gathered again in backward"
_EFFECTS = {
    "gradient_clipping": _CLIPPING,
    "max_norm": _CLIPPING,
    "max_grad_norm": _CLIPPING,
    "enable_fsdp_float8_all_gather": "weights are simulated as gathered in the width of mixed "
    "precision: in fp8 half as many bytes travel",
    "dataset": _IN_MEMORY,
    "datasets": _IN_MEMORY,
    "sample_packing": _FULL_LENGTH,
    "pad_to_sequence_len": _FULL_LENGTH,
    "packing": _FULL_LENGTH,
    "lora_dropout": "dropout is not simulated: it reads and writes adapters' inputs once more",
    "stage3_param_persistence_threshold": "small weights are simulated as gathered like others",
    "stage3_max_live_parameters": _FREED_EFFECT,
    "stage3_max_reuse_distance": _FREED_EFFECT,
    "sub_group_size": "the update is simulated in one piece",
    "allgather_bucket_size": "updated weights are simulated as gathered in one piece",
}
# Sections and keys of torchtitan, DeepSpeed, accelerate, Trainer and Axolotl about starting,
# learning, measuring and saving.
_NAMES = """
job profiling metrics checkpoint lr_scheduler validation comm memory_estimation debug
tokenizer_path hf_assets_path lr min_lr beta1 beta2 eps weight_decay warmup_steps steps seed
gc_freq gc_debug deterministic print_after_conversion pipeline_parallel_schedule
disable_loss_parallel filter_fqns precompute_float8_dynamic_scale_for_fsdp
scheduler steps_per_print wall_clock_breakdown tensorboard wandb csv_monitor comet
flops_profiler comms_logger params loss_scale loss_scale_window initial_scale_power hysteresis
min_loss_scale dump_state contiguous_gradients pin_memory
compute_environment machine_rank main_training_function main_process_ip main_process_port
rdzv_backend same_network gpu_ids downcast_bf16 enable_cpu_affinity tpu_env tpu_use_cluster
tpu_use_sudo tpu_name tpu_zone commands command_file zero3_init_flag fsdp_state_dict_type
fsdp_sync_module_states fsdp_use_orig_params fsdp_cpu_ram_efficient_loading fsdp_version
fsdp_transformer_layer_cls_to_wrap state_dict_type sync_module_states use_orig_params
cpu_ram_efficient_loading transformer_layer_cls_to_wrap learning_rate lr_scheduler_type
warmup_ratio num_train_epochs max_steps output_dir logging_steps save_steps save_strategy
eval_strategy evaluation_strategy report_to adam_beta1 adam_beta2 adam_epsilon
stage3_gather_16bit_weights_on_model_save model_type tokenizer_type val_set_size lora_alpha
num_epochs evals_per_epoch saves_per_epoch special_tokens
"""
_NO_PART = frozenset(_NAMES.split())
_OFF_WORDS = ("", "no", "none", "false", "disabled")
_UNKNOWN_EFFECT = "not known here; what such a key changes in a step is not predicted"
_WITHOUT_PART = "no part of a simulated step"
_EMPTY_EFFECT = "switched off or empty"
COMMONPLACE = {_UNKNOWN_EFFECT: 1, _WITHOUT_PART: 2, _EMPTY_EFFECT: 3}
"""Effects that many ignored keys of a file have, numbered from the most important one."""


class Settings:
    """The keys of a configuration, each checked and recorded when it is read.

    ``place`` is their path in the file. A key may have the ``prefix`` there, which wins, or one of
    ``names``: the path by which the file calls it.
    """

    def __init__(
        self,
        values: Mapping[Any, Any],
        place: str = "",
        prefix: str = "",
        names: Mapping[str, str] | None = None,
    ) -> None:
        self._values = values
        self._place = place
        self._prefix = prefix
        self._names = names or {}
        self._read: set[str] = set()
        self._open: set[str] = set()
        self._sections: dict[str, Settings] = {}

    def whole(self) -> dict[str, Any]:
        """Return all keys with their values, for translation to other names."""
        return {str(key): value for key, value in self._values.items()}

    def path(self, key: str) -> str:
        """Return the full path of a key, for errors and comments."""
        home, name = self._home(key)
        return home._below(name)

    def has(self, key: str) -> bool:
        """Return whether the file has a value for a key."""
        # Without `_get`: checking for a key does not use it, so it may still be reported as unused.
        home, name = self._home(key)
        return home._values.get(name) is not None

    def section(self, key: str, prefix: str = "") -> Settings:
        """Return the keys below one; empty if the file has no such section."""
        if key in self._sections:
            return self._sections[key]
        value = self._get(key)
        if value is None:
            value = {}
        if not isinstance(value, Mapping):
            raise self._problem(key, "must be a section of keys", value)
        return self._sections.setdefault(key, Settings(value, self.path(key), prefix))

    def number(self, key: str, least: int = 1, most: int = _LARGEST) -> int | None:
        """Return an integer; None if the file leaves it open."""
        value = self._get(key)
        if isinstance(value, float) and value.is_integer():
            value = int(value)  # 5e8
        if value is None:
            return None
        if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
            limits = f"of at least {least}" if most == _LARGEST else f"from {least} to {most}"
            raise self._problem(key, f"must be a whole number {limits}", value)
        return value

    def flag(self, key: str) -> bool | None:
        """Return whether something is on; None if the file leaves it open."""
        value = self._get(key)
        if isinstance(value, str) and value.lower() in ("true", "false"):
            return value.lower() == "true"  # accelerate writes some of them as text
        if value is not None and not isinstance(value, bool):
            raise self._problem(key, "must be true or false", value)
        return value

    def word(self, key: str, known: Mapping[str, Any] | None = None) -> str | None:
        """Return a word in lower case, one of ``known``; None if the file leaves it open."""
        value = self._get(key)
        if value is None:
            return None
        # Some words look like numbers or booleans: sharding_strategy: 1.
        word = str(value).lower() if isinstance(value, str | int) else None
        if word is None or (known is not None and word not in known):
            rule = "must be a word" if known is None else f"must be one of {', '.join(known)}"
            raise self._problem(key, rule, value)
        return word

    def text(self, key: str) -> str | None:
        """Return a text, such as a file's name; None if the file leaves it open."""
        value = self._get(key)
        if value is not None and not isinstance(value, str):
            raise self._problem(key, "must be a text", value)
        return value or None

    def words(self, key: str) -> tuple[str, ...]:
        """Return the words of a list or of a text, in lower case; none if the file has none."""
        value = self._get(key)
        if isinstance(value, str | int):
            value = str(value).split()
        if not isinstance(value or [], list) or not all(
            isinstance(one, str) for one in value or []
        ):
            raise self._problem(key, "must be words", value)
        return tuple(word.lower() for word in value or ())

    def unused(self) -> Iterator[tuple[str, str]]:
        """Yield all keys that are not in the scenario, with the effect on a step.

        They are the keys that were not read, and those whose value is left to the program.
        """
        for key, value in self._values.items():
            if key in self._open:
                yield self._below(key), "auto: the program fills it in; read as if it were left out"
            elif str(key) not in self._read and not _DEGREE.fullmatch(str(key)):
                yield self._below(str(key)), _effect_of(self._below(str(key)), value)
        for section in self._sections.values():
            yield from section.unused()

    def refuse_other_parallelism(self) -> None:
        """Raise ImportFileError if the file uses anything but data parallelism, at any depth."""
        for path, value in _walk(self._values, self._place):
            if _DEGREE.fullmatch(path.rpartition(".")[2]) and not _is_one(value):
                raise ImportFileError(
                    f"{path} must be 1, since data parallelism alone is simulated, but got "
                    f"{_shorten(value)}"
                )

    def is_open(self, key: str) -> bool:
        """Return whether a value is auto, left to the program; the caller then reports it."""
        home, name = self._home(key)
        home._open.discard(name)
        return bool(home._values.get(name) == _AUTO)

    def _below(self, key: str) -> str:
        return f"{self._place}.{key}" if self._place else key

    def _home(self, key: str) -> tuple[Settings, str]:
        """Return the section that holds a key, and the key as the file has it."""
        *sections, last = self._names.get(key, f"{self._prefix}{key}").split(".")
        home, values = self, self._values
        for section in sections:
            values = values.get(section, {})
            if not isinstance(values, Mapping):
                return self, key
            home = home.section(section)
        return (self, key) if values.get(last) is None else (home, last)

    def _get(self, key: str) -> Any:
        home, name = self._home(key)
        home._read.add(name)
        value = home._values.get(name)
        if value != _AUTO:
            return value
        # The word by which these files leave a value to the program.
        home._open.add(name)
        return None

    def _problem(self, key: str, rule: str, value: object) -> ImportFileError:
        return ImportFileError(f"{self.path(key)} {rule}, but got {_shorten(value)}")


def _shorten(value: object) -> str:
    shown = repr(value)
    return shown if len(shown) <= _LONGEST_SHOWN else f"{shown[:_LONGEST_SHOWN]}..."


def _walk(values: Mapping[Any, Any], place: str) -> Iterator[tuple[str, Any]]:
    """Yield every key in a mapping and in those below it, by its path, with its value."""
    for key, value in values.items():
        path = f"{place}.{key}" if place else str(key)
        if isinstance(value, Mapping):
            yield from _walk(value, path)
        else:
            yield path, value


def _is_one(degree: object) -> bool:
    """Return whether a degree divides nothing: 1, missing, or left to the program."""
    text = str(degree).strip()
    return degree is None or text == _AUTO or (text.lstrip("-").isdecimal() and int(text) <= 1)


def json_settings(content: bytes) -> Settings:
    """Parse the settings in a JSON file. Raises ImportFileError with the line for invalid JSON."""
    try:
        values = json.loads(content)
    except json.JSONDecodeError as error:
        raise ImportFileError(f"must be JSON, but: {error.msg}", error.lineno) from None
    except (ValueError, RecursionError) as error:
        raise ImportFileError(f"must be JSON, but: {error}") from None
    return _sections_of(values)


def toml_settings(content: bytes) -> Settings:
    """Parse the settings in a TOML file. Raises ImportFileError with the line for invalid TOML."""
    import tomllib

    try:
        values = tomllib.loads(content.decode("utf-8"))
    except (ValueError, RecursionError) as error:
        raise ImportFileError(f"must be TOML, but: {error}") from None
    return _sections_of(values)


def yaml_settings(content: bytes, name: str) -> Settings:
    """Parse the settings in a YAML file. Raises DpsimError with the line for invalid YAML."""
    from dpsim.scenario import from_text

    try:
        text = content.decode("utf-8")
    except UnicodeDecodeError:
        raise ImportFileError("must be text in UTF-8, but holds other bytes") from None
    # The reader of scenarios has limits and reports lines.
    return _sections_of(from_text(text, name).plain())


def _sections_of(values: object) -> Settings:
    if not isinstance(values, Mapping) or not values:
        raise ImportFileError("must be a configuration with keys, but is not")
    return Settings(values)


def _effect_of(path: str, value: object) -> str:
    """Return the effect of ignoring the key at ``path`` on the prediction of a step."""
    if not value or value in _OFF_WORDS:
        return _EMPTY_EFFECT
    section, name = path.split(".", maxsplit=1)[0], path.rpartition(".")[2]
    if name in _EFFECTS:
        return _EFFECTS[name]
    return _WITHOUT_PART if {section, name} & _NO_PART else _UNKNOWN_EFFECT
