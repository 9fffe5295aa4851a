"""Names of models, precisions and software as a scenario's ``workload``."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from functools import cache
from types import UnionType
from typing import Any, Literal, Union, get_args, get_origin

from dpsim.base.errors import UnknownNameError
from dpsim.hardware import Gpu, Precision
from dpsim.workload import (
    MODELS,
    WITHOUT_TENSOR_CORES,
    WorkloadConfig,
    build_model,
    canonical_name,
)
from validate.published.tables.csv_file import NotPredictedError, Row
from validate.published.tables.packaged import constants_file

SETTINGS = "tables/training.yaml"
_SIZES = frozenset({"tiny", "mini", "small", "medium", "large", "huge", "xl", "xxl"})
_HALF = ("amp", "fp16", "mixed")


def model_in(words: str) -> dict[str, Any]:
    """Return ``model`` and ``sequence_length``, ``optimizer``, ``trainable`` implied by its name.

    Raises NotPredictedError for a model that the catalogue lacks.
    """
    entries = constants_file(SETTINGS)["models"]
    begins = model_named(words, entries)
    found = {"model": words} if begins is None else dict(entries[begins])
    try:
        return {**found, "model": canonical_name(found["model"])}
    except UnknownNameError:
        raise NotPredictedError(f"no such model in the catalogue: {words}") from None


def workload_of(
    row: Row,
    gpu: Gpu,
    software: Mapping[str, Any],
    batch: int,
    passes: int = 1,
    optimizer_text: str = "",
) -> dict[str, Any]:
    """Return the workload of a row with a model's name and a precision, and a sample length if any.

    ``optimizer_text`` may name its optimizer. Raises NotPredictedError for a model that the
    catalogue lacks, and for sentences whose batch is in tokens.
    """
    model = model_in(row.text("model"))
    length = row.number("sequence_length") or row.number("seq_len") or model.get("sequence_length")
    if length == 1:
        raise NotPredictedError("batch in tokens, and no length of a sentence is stated")
    words = known_words(software)
    if not MODELS[model["model"]].fusible:
        words.pop("attention", None)
    return {
        "model": model["model"],
        **({"sequence_length": int(length)} if length else {}),
        "batch_per_gpu": batch,
        "gradient_accumulation": passes,
        "precision": precision_in(row.text("precision"), gpu),
        "optimizer": optimizer_in(optimizer_text, model),
        **words,
        # The model's own settings take precedence over its software's usual settings.
        **{name: model[name] for name in ("trainable", "input") if name in model},
    }


def stated_step(row: Row, samples: int) -> float:
    """Return the seconds of a step as stated, or from the throughput and its ``samples``."""
    step = row.number("step_time_ms")
    if step is not None:
        return step * 1e-3
    if row.text("unit").startswith("tokens"):
        raise NotPredictedError("tokens per second without the tokens of a batch")
    return samples / row.stated("throughput")


def precision_in(words: str, gpu: Gpu) -> Precision:
    """Return the precision of products: fp32 if the GPU has no units for the one named.

    Mixed precision on GPUs before tensor cores is fp32, too.
    """
    low = words.casefold()
    if low.startswith("bf16"):
        return "bf16"
    if low.startswith(("fp8", "fp4")):
        return "nvfp4" if "fp4" in low and "nvfp4" in gpu.peak else "fp8"
    if low.startswith(_HALF):
        fast = "fp16" in gpu.peak and gpu.architecture not in WITHOUT_TENSOR_CORES
        return "fp16" if fast else "fp32"
    return "tf32" if "tf32" in low and "tf32" in gpu.peak else "fp32"


def optimizer_in(words: str, model: Mapping[str, Any]) -> str:
    """Return the optimizer that a row names, or the usual one of such models."""
    settings, low = constants_file(SETTINGS), words.casefold()
    for entry in settings["optimizers"]:
        if entry["words"] in low:
            return str(first_known("optimizer", entry["optimizer"]))
    kind = "images" if build_model(model["model"]).tokens is None else "tokens"
    return str(model.get("optimizer", settings["usual_optimizer"][kind]))


def software_in(words: str) -> dict[str, Any]:
    """Return the software that ``words`` of a row state, in the words of a workload.

    Each field gets a value that scenarios know, or a future one if they do not know the field.
    """
    low = words.casefold()
    entries = constants_file(SETTINGS)["software"]
    entry = next(entry for entry in entries if all(word in low for word in entry["words"]))
    fields = {name: value for name, value in entry.items() if name != "words"}
    return {name: first_known(name, value) for name, value in fields.items()}


def first_known(name: str, value: Any) -> Any:
    """Return the first value that a workload's field ``name`` accepts; the last if none."""
    values = value if isinstance(value, list) else [value]
    return next((each for each in values if _may_be(name, each)), values[-1])


def known_words(words: Mapping[str, Any]) -> dict[str, Any]:
    """Return the ``words`` that a scenario's workload has, with values that it accepts."""
    fields = WorkloadConfig.model_fields
    return {name: value for name, value in words.items() if name in fields and _may_be(name, value)}


def _may_be(name: str, value: Any) -> bool:
    """Return whether a workload's field accepts this value, as far as its type says."""
    words = _literals(name)
    return words is None or value in words


@cache
def _literals(name: str) -> frozenset[Any] | None:
    """Return the literals of a workload's field; None if it accepts others or does not exist."""
    field = WorkloadConfig.model_fields.get(name)
    if field is None:
        return None
    origin = get_origin(field.annotation)
    parts = get_args(field.annotation) if origin in (Union, UnionType) else (field.annotation,)
    literals = [get_args(part) for part in parts if get_origin(part) is Literal]
    if len(literals) < sum(part is not type(None) for part in parts):
        return None
    return frozenset(word for of_part in literals for word in of_part)


def model_named(name: str, known: Iterable[str]) -> str | None:
    """Return the longest of the ``known`` names that begins ``name``, case folded; None if none.

    The rest must not make it another model: a further digit ("ResNet-20" in "ResNet-200") or a size
    ("GPT-2" in "GPT-2 XL").
    """
    fitting = [key for key in known if _begins(name.casefold(), key.casefold())]
    return max(fitting, key=len, default=None)


def _begins(name: str, key: str) -> bool:
    if not name.startswith(key):
        return False
    rest = name[len(key) :]
    if key[-1].isdigit() and rest[:1].isdigit():
        return False
    following = re.match(r"[\s-]+(\w+)", rest)
    return following is None or following.group(1) not in _SIZES
