"""A folder of YAML files as a registry, together with a user's own folder.

A file's stem is its entry's name, and it is parsed on first use. A user's own entry overrides
dpsim's of the same name.
"""

from __future__ import annotations

import os
import re
from collections import defaultdict
from collections.abc import Callable, Iterator
from functools import cached_property
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

from pydantic import (
    BaseModel,
    Field,
    ValidationError,
    ValidationInfo,
    ValidatorFunctionWrapHandler,
    WrapValidator,
)

from dpsim.base.config import first_problem
from dpsim.base.errors import DpsimError, UnknownNameError
from dpsim.base.files import read_text_limited
from dpsim.base.registry import Registry
from dpsim.base.shipped import shipped_yaml

if TYPE_CHECKING:
    from importlib.resources.abc import Traversable

M = TypeVar("M", bound=BaseModel)

OWN_FOLDER = "DPSIM_CATALOGUE"  # environment variable with a user's own folder; empty for none
_MOST_BYTES = 2**20  # size of a user's own file

# Aliases are on one line, so that names are found without parsing all files.
_ALIASES = re.compile(r"^aliases: *\[(.*)\] *$", re.MULTILINE)

_WORD = re.compile(r"[a-z0-9]+")
_MOST_WORDS = 8  # in a name: "NVIDIA RTX PRO 6000 Blackwell Server Edition" has seven


def normalised(name: str) -> str:
    """Return ``name`` as the catalogue compares it: "DGX_A100" is "dgx-a100", "25 GbE" "25gbe"."""
    return "".join(name.casefold().split()).replace("_", "-")


def own_folder() -> Path | None:
    """Return the folder of a user's own gpus/, links/ and nodes/, whether or not it exists."""
    named = os.environ.get(OWN_FOLDER)
    if named is not None:
        # Set but empty means no folder, not even the default one.
        return Path(named).expanduser() if named else None
    settings = os.environ.get("XDG_CONFIG_HOME") or os.path.expanduser("~/.config")
    return Path(settings) / "dpsim" / "catalogue"


def stated_aliases(text: str) -> list[str]:
    """Return the aliases in the text of an entry's file, without parsing it."""
    return [
        alias.strip().strip("'\"")
        for line in _ALIASES.findall(text)
        for alias in line.split(",")
        if alias.strip()
    ]


def read_entry(path: Path, model: type[M], name: str | None = None) -> M:
    """Return the entry that a user's own YAML file describes, in the catalogue's format.

    It has the file's name, unless ``name`` is given. Raises DpsimError if it is not valid.
    """
    from ruamel.yaml import YAML
    from ruamel.yaml.error import YAMLError

    try:
        # Pure Python reads YAML 1.2; the C parser uses 1.1's words, such as ``no`` for false.
        data = YAML(typ="safe", pure=True).load(read_text_limited(path, _MOST_BYTES))
        return model.model_validate({"name": name or path.stem, **data})
    except DpsimError:
        raise
    except ValidationError as error:
        raise DpsimError(f"{path}: {first_problem(error)}") from None
    except (YAMLError, TypeError, ValueError, RecursionError, AttributeError):
        # What the parser raises for a file that is not YAML, and ``**`` for one that is no mapping.
        raise DpsimError(
            f"{path}: must be a readable {model.__name__.lower()} file, but it is not a YAML "
            "mapping"
        ) from None


class Catalogue(Registry[M]):
    """The entries of one folder by name or alias, in any spelling; iterates over sorted names.

    Each file has the fields of ``model`` except ``name``.
    """

    def __init__(self, what: str, folder: str, model: type[M]) -> None:
        super().__init__(what, {})
        self.folder = folder
        self._model = model

    def __getitem__(self, name: str) -> M:
        canonical = self.canonical(name)
        if canonical not in self._members:
            self._members[canonical] = self._read(canonical)
        return self._members[canonical]

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and self._find(name) is not None

    def __iter__(self) -> Iterator[str]:
        return iter(self._files)

    def __len__(self) -> int:
        return len(self._files)

    def canonical(self, name: str) -> str:
        """Return the name of the entry with this name or alias, without parsing its file.

        Raises UnknownNameError.
        """
        found = self._find(name)
        if found is None:
            raise UnknownNameError(self.what, name, [*self._files, *self._aliases])
        return found

    def complete(self, schema: dict[str, Any]) -> None:
        """Add the names to the JSON Schema of a name, so that editors can complete it."""
        schema["examples"] = list(self)

    def named_in(self, text: str) -> list[str]:
        """Return the names of the entries that ``text`` mentions, without parsing their files.

        A name or alias must occur as whole words, with any spaces and hyphens, and not inside a
        longer name: "A100 80GB PCIe" does not mention the A100.
        """
        # The text without separators, and the boundaries of its words.
        squeezed, boundaries = "", [0]
        for word in _WORD.findall(text.casefold()):
            squeezed += word
            boundaries.append(len(squeezed))
        found: dict[str, None] = {}  # in the order of the text
        last_end = 0
        for index, start in enumerate(boundaries):
            ends = boundaries[index + 1 : index + 1 + _MOST_WORDS]
            named = [end for end in ends if squeezed[start:end] in self._spellings]
            # A match that ends no later than an earlier name is inside that name.
            if named and named[-1] > last_end:
                last_end = named[-1]
                found[self._spellings[squeezed[start:last_end]]] = None
        return list(found)

    def with_line_starting(self, start: str) -> list[str]:
        """Return the names of entries with a line that begins with ``start``, without parsing."""
        return [
            name
            for name, file in self._files.items()
            if any(line.startswith(start) for line in _text(file).splitlines())
        ]

    def _find(self, name: str) -> str | None:
        key = normalised(name)
        if key in self._files:
            return key
        # "RTX 4090" is "rtx-4090".
        return self._aliases.get(key) or self._without_hyphens.get(key.replace("-", ""))

    @cached_property
    def _files(self) -> dict[str, Traversable]:
        return dict(sorted({**self._shipped, **self._own}.items()))

    @cached_property
    def _shipped(self) -> dict[str, Traversable]:
        return {
            file.name.removesuffix(".yaml"): file
            for file in (files("dpsim.hardware") / self.folder).iterdir()
            if file.name.endswith(".yaml")
        }

    @cached_property
    def _own(self) -> dict[str, Path]:
        """A user's own files by name; raises DpsimError if the named folder does not exist."""
        folder = own_folder()
        if folder is None:
            return {}
        if OWN_FOLDER in os.environ and not folder.is_dir():
            raise DpsimError(
                f"{OWN_FOLDER}: must be a folder with gpus, links or nodes, but there is none at "
                f"{folder}"
            )
        found = sorted(folder.glob(f"{self.folder}/*.yaml"))
        return {normalised(file.stem): file for file in found}

    @cached_property
    def _aliases(self) -> dict[str, str]:
        # A user's own come last, and win if both have an alias. An overridden entry keeps its
        # aliases.
        return {
            normalised(alias): name
            for part in (self._shipped, self._own)
            for name, file in part.items()
            for alias in stated_aliases(_text(file))
        }

    @cached_property
    def _without_hyphens(self) -> dict[str, str]:
        """Entries by name or alias without hyphens, unless two entries have the same."""
        found: dict[str, set[str]] = defaultdict(set)
        for name in self._files:
            found[name.replace("-", "")].add(name)
        for alias, name in self._aliases.items():
            found[alias.replace("-", "")].add(name)
        return {spelling: min(names) for spelling, names in found.items() if len(names) == 1}

    @cached_property
    def _spellings(self) -> dict[str, str]:
        """Entries by name and alias, without spaces and hyphens."""
        named = {**self._aliases, **{name: name for name in self._files}}
        return {"".join(_WORD.findall(spelling)): name for spelling, name in named.items()}

    def _read(self, name: str) -> M:
        if name in self._own:
            return read_entry(self._own[name], self._model, name)
        data: dict[str, Any] = shipped_yaml(self._files[name])
        return self._model.model_validate({"name": name, **data})


def by_name(
    entries: Callable[[], Catalogue[M]], model: type[M], *, also_files: bool = False
) -> WrapValidator:
    """Let a field of type ``model`` accept the name of one of the ``entries``.

    With ``also_files`` also the path of a file that describes one, relative to the scenario.
    """

    def read(value: object, check: ValidatorFunctionWrapHandler, info: ValidationInfo) -> object:
        if not isinstance(value, str):
            return check(value)
        # The content of a file was checked when it was read.
        if also_files and value.endswith((".yaml", ".yml")):
            return read_entry(Path((info.context or {}).get("folder", "")) / value, model)
        return entries()[value]

    name = Annotated[str, Field(json_schema_extra=lambda schema: entries().complete(schema))]
    return WrapValidator(read, json_schema_input_type=name | model)


def _text(file: Traversable) -> str:
    """Return the text of a file, for looking up names; empty if it cannot be read.

    The error is reported when the entry is requested.
    """
    try:
        return file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        return ""
