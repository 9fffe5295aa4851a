"""Words on models, precision and software as a scenario's ``workload``."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from types import UnionType
from typing import Any, Literal, Union, get_args, get_origin

from dpsim.base.errors import UnknownNameError
from dpsim.hardware import Gpu, Precision
from dpsim.workload import WITHOUT_TENSOR_CORES, WorkloadConfig, build_model, canonical_name
from validate.published.tables.columns import constants_file
from validate.published.tables.csv_file import NotPredictedError
from validate.published.tables.model_name import model_named

SETTINGS = "tables/training.yaml"
_HALF = ("amp", "fp16", "mixed")


def model_in(words: str) -> dict[str, Any]:
    """``model`` and, where its name tells them, ``sequence_length`` and ``optimizer``.

    Raises NotPredictedError for a model that the catalogue lacks.
    """
    entries = constants_file(SETTINGS)["models"]
    begins = model_named(words, entries)
    found = {"model": words} if begins is None else dict(entries[begins])
    try:
        return {**found, "model": canonical_name(found["model"])}
    except UnknownNameError:
        raise NotPredictedError(f"no such model in the catalogue: {words}") from None


def precision_in(words: str, gpu: Gpu) -> Precision:
    """The precision of products: that of fp32 where a GPU has no units for the one that is named.

    So is mixed precision on GPUs before tensor cores.
    """
    low = words.casefold()
    if low.startswith("bf16"):
        return "bf16"
    if low.startswith(("fp8", "fp4")):
        return "fp8"
    if low.startswith(_HALF):
        fast = "fp16" in gpu.peak and gpu.architecture not in WITHOUT_TENSOR_CORES
        return "fp16" if fast else "fp32"
    return "tf32" if "tf32" in low and "tf32" in gpu.peak else "fp32"


def optimizer_in(words: str, model: Mapping[str, Any]) -> str:
    """The optimizer that a row names, or the one that such models are usually trained with."""
    settings, low = constants_file(SETTINGS), words.casefold()
    for entry in settings["optimizers"]:
        if entry["words"] in low:
            return str(first_known("optimizer", entry["optimizer"]))
    kind = "images" if build_model(model["model"]).tokens is None else "tokens"
    return str(model.get("optimizer", settings["usual_optimizer"][kind]))


def software_in(words: str) -> dict[str, Any]:
    """What ``words`` of a row say of its software, in the words of a workload.

    Each has the value that scenarios know, or will know where they do not know the word.
    """
    low = words.casefold()
    entries = constants_file(SETTINGS)["software"]
    entry = next(entry for entry in entries if all(word in low for word in entry["words"]))
    said = {name: value for name, value in entry.items() if name != "words"}
    return {name: first_known(name, value) for name, value in said.items()}


def first_known(name: str, value: Any) -> Any:
    """The first of several values that a workload's field ``name`` may have; the last if none."""
    values = value if isinstance(value, list) else [value]
    return next((each for each in values if _may_be(name, each)), values[-1])


def known_words(words: Mapping[str, Any]) -> dict[str, Any]:
    """Those of ``words`` that a scenario's workload has, with values that it may have."""
    fields = WorkloadConfig.model_fields
    return {name: value for name, value in words.items() if name in fields and _may_be(name, value)}


def _may_be(name: str, value: Any) -> bool:
    """Whether a workload's field may have this value, as far as its type says; so may no field."""
    words = _literals(name)
    return words is None or value in words


@cache
def _literals(name: str) -> frozenset[Any] | None:
    """The words that a workload's field may be; None where it takes others, or is none."""
    field = WorkloadConfig.model_fields.get(name)
    if field is None:
        return None
    origin = get_origin(field.annotation)
    parts = get_args(field.annotation) if origin in (Union, UnionType) else (field.annotation,)
    literals = [get_args(part) for part in parts if get_origin(part) is Literal]
    if len(literals) < sum(part is not type(None) for part in parts):
        return None
    return frozenset(word for of_part in literals for word in of_part)
