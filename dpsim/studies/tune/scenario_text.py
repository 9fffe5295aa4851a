"""A configuration as a scenario file: the original file's content with other values."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from textwrap import wrap

from dpsim.base.errors import FailedError
from dpsim.scenario import Document, Plain, Scenario, as_yaml, from_text, validate
from dpsim.studies.sweep import scenario_key


def scenario_text(document: Document, comments: Iterable[str], target: Path) -> str:
    """Return the YAML text of ``document``, below ``comments``, for a file at ``target``.

    Paths of files are made relative to ``target``. Comments of the original file are lost. Raises
    FailedError if the text would be another scenario.
    """
    content = _moved(document.plain(), Path(document.source).parent, target.parent)
    lines = (part for line in comments for part in wrap(line, 118, subsequent_indent="  ") or [""])
    text = "".join(f"# {line}\n" for line in lines) + as_yaml(content, 120)
    # Read back to make sure: a number or a file's name may have been written differently.
    read = validate(from_text(text, str(target)), Scenario)
    if scenario_key(read) != scenario_key(validate(document, Scenario)):
        raise FailedError(
            f"{target}: would not be the scenario that was found: write it into "
            f"{Path(document.source).parent}"
        )
    return text


def _moved(value: Plain, source: Path, target: Path) -> Plain:
    """Return the value with relative paths of files changed from one folder to the other."""
    if isinstance(value, dict):
        return {key: _moved(below, source, target) for key, below in value.items()}
    if isinstance(value, list):
        return [_moved(below, source, target) for below in value]
    return _renamed(value, source, target) if isinstance(value, str) else value


def _renamed(text: str, source: Path, target: Path) -> str:
    name, colon, function = text.rpartition(":") if ".py:" in text else (text, "", "")
    if source.resolve() == target.resolve():
        return text
    # Any text may be a file name: only plausible ones are looked up.
    if not name or "\n" in name or len(name) > 4096:
        return text
    if Path(name).is_absolute() or not (source / name).is_file():
        return text
    return f"{os.path.relpath(source / name, target)}{colon}{function}"
