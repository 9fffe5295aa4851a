"""Scenarios as the dashboard reads them: presets, and texts that nobody vouches for.

No file is read and no code is run for one.
"""

from __future__ import annotations

import shlex
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Any

from app import limits
from app.presets import preset_path
from app.spec import MOST_BYTES, Spec
from dpsim.base.errors import DpsimError
from dpsim.scenario import Document, Problem, Scenario, apply_overrides, error, from_text, validate

_FILES = (
    "must not name a file here, since the dashboard reads none for a scenario: "
    "write the file's content in its place, or run it on the command line (dpsim run FILE)"
)
_TORCH = (
    "must be a model of the catalogue here, but got a torch factory, which is code that the "
    "dashboard does not run: "
    "dpsim import torch FACTORY writes it as a profile, and dpsim run FILE runs the scenario"
)


class _NoFolder:
    """Stands for the folder beside a scenario.

    Whoever looks for a file in it is told that there are none.
    """

    def __fspath__(self) -> str:
        raise DpsimError(_FILES)


# Each widget of a page asks for it anew.
@lru_cache(maxsize=256)
def document(spec: Spec) -> Document:
    """The values of ``spec`` with their places, not yet checked. Raises DpsimError."""
    return apply_overrides(_unchanged(replace(spec, changes=())), spec.changes, Scenario)


@lru_cache(maxsize=16)
def _unchanged(spec: Spec) -> Document:
    """The values of a set-up as it was written: a turn changes them a few times over."""
    if spec.text is not None:
        return from_text(spec.text, spec.file)
    path = preset_path(spec.preset or "")
    return from_text(path.read_text(encoding="utf-8"), path.name)


@lru_cache(maxsize=256)
def scenario(spec: Spec) -> Scenario:
    """The scenario of ``spec``.

    Raises DpsimError with line and column of every problem, files and code among them.
    """
    given = document(spec)
    factory = given.root.at(("workload", "model", "torch"))
    # Building the model would import the factory, which is code.
    if factory is not None:
        raise error(
            [Problem(factory.key_place or factory.place, ("workload", "model", "torch"), _TORCH)]
        )
    return validate(given, Scenario, folder=_NoFolder())


def admitted(spec: Spec) -> Scenario:
    """The scenario of ``spec``. Raises DpsimError where it is wrong, or too large for a page."""
    given = scenario(spec)
    limits.check(given)
    return given


def uploaded(name: str, data: bytes) -> Spec:
    """The scenario in an uploaded file.

    Raises DpsimError where it is too large or no text; what it says is not checked.
    """
    if len(data) > MOST_BYTES:
        raise DpsimError(f"{name}: must be at most {MOST_BYTES:,} bytes, but got {len(data):,}")
    try:
        # Some editors begin a file with a mark of its encoding, which is none of its text.
        return Spec(text=data.decode("utf-8-sig"), file=Path(name).name)
    except UnicodeDecodeError as wrong:
        line = data[: wrong.start].count(b"\n") + 1
        raise DpsimError(
            f"{name}:{line}: must be text in UTF-8, but got the byte 0x{data[wrong.start]:02x}"
        ) from None


def to_yaml(spec: Spec, name: str = "") -> str:
    """All values of ``spec`` as one YAML text that reads back to the same scenario.

    ``name`` is that of a changed one, where nobody has set its own.
    """
    from io import StringIO

    from ruamel.yaml import YAML

    writer: Any = YAML(typ="safe", pure=True)
    writer.default_flow_style = False
    writer.width = 120
    # In the order of the file: ruamel.yaml would sort the keys.
    writer.sort_base_mapping_type_on_output = False
    written = StringIO()
    values: Any = document(spec).plain()
    if spec.changes and name and not any(each.startswith("name=") for each in spec.changes):
        values["name"] = name
    writer.dump(values, written)
    return written.getvalue()


def to_command(spec: Spec, stem: str) -> str:
    """What to type in a shell to get the same numbers: write the file ``stem`` and run it."""
    text = to_yaml(spec, stem)
    end = "EOF"
    while end in text.splitlines():
        end += "_"
    file = shlex.quote(f"{stem}.yaml")
    return f"cat > {file} <<'{end}'\n{text}{end}\ndpsim run {file}"
