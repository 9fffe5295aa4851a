"""A user's own model: traced from torch, described by a configuration, or read from a profile."""

from __future__ import annotations

import os
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Literal

from pydantic import (
    BeforeValidator,
    Field,
    PositiveInt,
    SerializationInfo,
    ValidationInfo,
    field_serializer,
    field_validator,
)

from dpsim.base.config import Config, FilePath, as_content, beside_scenario
from dpsim.base.errors import DpsimError
from dpsim.base.files import digest
from dpsim.base.terminal import narrate
from dpsim.workload.layer import Model
from dpsim.workload.models import Images, Tokens


class TorchSource(Config):
    """A torch module that a function returns, traced without weights."""

    torch: str = Field(
        description=(
            "package.module:factory, or path/to/file.py:factory in the scenario's folder. "
            "It is called without arguments. This runs its code, unless --no-code is "
            "given or DPSIM_NO_CODE=1 is set."
        ),
        examples=["mypackage.models:build"],
    )
    input: tuple[PositiveInt, ...] = Field(
        min_length=1,
        max_length=8,
        description="Shape of one sample, without the batch.",
        examples=[[3, 224, 224]],
    )
    dtype: Literal["float32", "int64"] = Field(
        "float32", description="Data type of the input; int64 for tokens."
    )

    @field_serializer("torch")
    def _serialize_torch(self, factory: str, info: SerializationInfo) -> str:
        where, _, name = factory.rpartition(":")
        # A scenario's key depends on the content of its files, not on their location.
        return f"{as_content(where, info)}:{name}" if where.endswith(".py") else factory

    @field_validator("torch")
    @classmethod
    def _check_factory(cls, factory: str, info: ValidationInfo) -> str:
        from dpsim.workload.torch_factory import check_factory, refuse_forbidden

        where, _, name = check_factory(factory)
        refuse_forbidden(factory)
        folder = (info.context or {}).get("folder")
        if not where.endswith(".py"):
            if folder is not None:
                _check_module(where, Path(folder))
            return factory
        path = beside_scenario(where, info)
        if folder is not None and not Path(path).resolve().is_relative_to(Path(folder).resolve()):
            raise ValueError(f"must be a file in the scenario's own folder, but got {where!r}")
        return f"{path}:{name}"

    def entry(self) -> Images | Tokens:
        """Return the model's entry, which builds it."""
        where, _, _ = self.torch.rpartition(":")
        file_digest = digest(where) if Path(where).is_file() else ""
        return Images(lambda: _traced(self.torch, self.input, self.dtype, file_digest))


def _check_module(name: str, folder: Path) -> None:
    """Raise ValueError for a module in the current folder, unless that is the scenario's."""
    top, current = name.partition(".")[0], Path.cwd()
    is_in_current = (current / top).is_dir() or (current / f"{top}.py").is_file()
    if is_in_current and folder.resolve() != current and find_spec(top) is None:
        raise ValueError(
            f"must be an installed module, or one in the scenario's own folder, but got {name!r}"
        )


class ConfigSource(Config):
    """A transformer by its Hugging Face style configuration."""

    config: FilePath = Field(
        description=(
            "A config.json or its folder, relative to the scenario: the families of bert, gpt2, "
            "llama, qwen, gemma, phi, olmo, mixtral, mamba, gpt_neox and vit, and any other with "
            "the extra hf."
        )
    )

    @field_validator("config")
    @classmethod
    def _check_readable(cls, path: str) -> str:
        from dpsim.workload.models import from_config

        # Not Path.is_dir, which raises if a name is too long.
        file = str(Path(path) / "config.json") if os.path.isdir(path) else path
        # For its errors, which are reported with the field's place in the scenario.
        from_config(file)
        return file

    def entry(self) -> Images | Tokens:
        """Return how to build it."""
        from dpsim.workload.models import from_config

        return from_config(self.config)


class ProfileSource(Config):
    """A model from a profile, with its measured times if it has them."""

    profile: FilePath = Field(
        description="A file that dpsim import torch or kineto wrote, relative to the scenario."
    )

    @field_validator("profile")
    @classmethod
    def _check_readable(cls, path: str) -> str:
        from dpsim.workload.profile import load_model_profile

        load_model_profile(path)
        return path

    def entry(self) -> Images | Tokens:
        """Return how to build it."""
        from dpsim.workload.profile import load_model_profile

        return Images(load_model_profile(self.profile).model)


def _check_source(values: object) -> object:
    """Return ``values`` if they have one source. Raises DpsimError otherwise."""
    if not isinstance(values, dict):
        return values
    given = [key for key in ("torch", "config", "profile") if key in values]
    if len(given) != 1:
        got = ", ".join(map(str, given or values)) or "none of them"
        raise DpsimError(
            f"must have exactly one of the keys torch, config, profile, but got {got[:60]}"
        )
    return values


# Before the union, each of whose members would reject the others' keys.
ModelSource = Annotated[TorchSource | ConfigSource | ProfileSource, BeforeValidator(_check_source)]


# A trace takes seconds, and a sweep needs the same model many times.
@lru_cache(maxsize=8)
def _traced(factory: str, shape: tuple[int, ...], dtype: str, file_digest: str) -> Model:
    """Trace the model; a new ``file_digest`` invalidates the cache."""
    from dpsim.workload.torch_trace import trace

    where = factory.rpartition(":")[0]
    narrate(f"running {where}, the code that the scenario names as its model; --no-code refuses it")
    return trace(factory, shape, dtype)
