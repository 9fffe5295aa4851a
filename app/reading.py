"""Scenarios for the dashboard: presets, and untrusted texts.

Reading one accesses no files and runs no code.
"""

from __future__ import annotations

import json
import shlex
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Any

from app.presets import preset_path
from app.spec import MOST_BYTES, Spec
from dpsim.base.errors import DpsimError
from dpsim.scenario import (
    Document,
    Problem,
    Scenario,
    apply_overrides,
    as_yaml,
    error,
    from_text,
    validate,
)
from dpsim.studies.kept_scale import scale_of

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

    Accessing it raises an error that there are no files.
    """

    def __fspath__(self) -> str:
        raise DpsimError(_FILES)


# Cached, since each widget of a page needs it.
@lru_cache(maxsize=256)
def document(spec: Spec) -> Document:
    """Return the values of ``spec`` with their places, before validation. Raises DpsimError."""
    return apply_overrides(_unchanged(replace(spec, changes=())), spec.changes, Scenario)


@lru_cache(maxsize=16)
def _unchanged(spec: Spec) -> Document:
    """Return the values of a set-up as written; cached, since its variations share them."""
    if spec.text is not None:
        return from_text(spec.text, spec.file)
    path = preset_path(spec.preset or "")
    return from_text(path.read_text(encoding="utf-8"), path.name)


@lru_cache(maxsize=256)
def scenario(spec: Spec) -> Scenario:
    """Return the scenario of ``spec``.

    Raises DpsimError with line and column of every problem, including references to files and code.
    """
    given = document(spec)
    factory = given.root.at(("workload", "model", "torch"))
    # Building the model would import the factory, which is code.
    if factory is not None:
        raise error(
            [Problem(factory.key_place or factory.place, ("workload", "model", "torch"), _TORCH)]
        )
    return validate(given, Scenario, folder=_NoFolder())


def uploaded(name: str, data: bytes) -> Spec:
    """Return the scenario in an uploaded file.

    Raises DpsimError if it is too large or not text; its contents are not validated.
    """
    if len(data) > MOST_BYTES:
        raise DpsimError(f"{name}: must be at most {MOST_BYTES:,} bytes, but got {len(data):,}")
    try:
        # Some editors write a byte order mark at the start.
        return Spec(text=data.decode("utf-8-sig"), file=Path(name).name)
    except UnicodeDecodeError as wrong:
        line = data[: wrong.start].count(b"\n") + 1
        raise DpsimError(
            f"{name}:{line}: must be text in UTF-8, but got the byte 0x{data[wrong.start]:02x}"
        ) from None


def to_yaml(spec: Spec, name: str = "") -> str:
    """Return all values of ``spec`` as one YAML text that reads back to the same scenario.

    ``name`` is the name of a changed scenario, unless the user has set one.
    """
    values: Any = document(spec).plain()
    if spec.changes and name and not any(each.startswith("name=") for each in spec.changes):
        values["name"] = name
    return as_yaml(values, 200)


def to_command(spec: Spec, stem: str) -> str:
    """Return a shell command for the same result: write the file ``stem`` and run it."""
    text = to_yaml(spec, stem)
    end = "EOF"
    while end in text.splitlines():
        end += "_"
    file = shlex.quote(f"{stem}.yaml")
    return f"cat > {file} <<'{end}'\n{text}{end}\ndpsim run {file}"


@lru_cache(maxsize=64)
def with_fitted_times(spec: Spec) -> Spec:
    """Return ``spec`` with the fitted factor on compute times instead of a measured step.

    Otherwise every changed scenario would be fitted to the measured step again, which does not
    apply to it. Raises DpsimError.
    """
    scale = scale_of(scenario(spec))
    return spec if scale is None else spec.with_value("calibration", json.dumps(scale))
