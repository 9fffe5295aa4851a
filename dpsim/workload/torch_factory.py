"""The function of a user's that returns a torch module: found, called, its troubles explained."""

from __future__ import annotations

import importlib
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from dpsim.base.errors import DpsimError, how_to_install
from dpsim.base.files import CODE_REFUSED, runs_code

_LONGEST_TEXT = 300


def check_factory(factory: str) -> tuple[str, str, str]:
    """Splits ``package.module:factory`` or ``file.py:factory``.

    Raises DpsimError for anything else.
    """
    where, colon, name = factory.rpartition(":")
    module = re.fullmatch(r"[^\W\d]\w*(\.[^\W\d]\w*)*", where) or where.endswith(".py")
    if not (colon and module and re.fullmatch(r"[^\W\d]\w*(\.[^\W\d]\w*)*", name)):
        raise DpsimError(f"must be package.module:factory or file.py:factory, but got {factory!r}")
    return where, colon, name


def refuse_forbidden(factory: str) -> None:
    """Raise DpsimError where no code that is named may be run."""
    if not runs_code():
        raise DpsimError(f"{CODE_REFUSED}, but names {factory!r}")


def import_torch(what: str = "a torch model") -> Any:
    """The torch package, which ``what`` needs.

    Raises DpsimError with how to install it where it is missing.
    """
    try:
        return importlib.import_module("torch")
    except ImportError:
        raise DpsimError(f"{what} needs torch; {how_to_install('validate')}") from None


def find_factory(factory: str) -> Callable[[], Any]:
    """The function that ``factory`` names.

    Modules are looked for on Python's path and then in the current folder.
    """
    where, _, name = check_factory(factory)
    refuse_forbidden(factory)
    with explained(factory, "cannot be imported"):
        found: Any = _from_file(Path(where)) if where.endswith(".py") else _from_module(where)
    for part in name.split("."):
        if not hasattr(found, part):
            raise DpsimError(f"{factory}: {where} has no {name}")
        found = getattr(found, part)
    if not callable(found):
        raise DpsimError(f"{factory}: must be a function or a class, but is {type(found).__name__}")
    return found  # type: ignore[no-any-return]


def _from_module(name: str) -> Any:
    # Last, so that nothing in the folder hides a module that is installed.
    sys.path.append(str(Path.cwd()))
    try:
        return importlib.import_module(name)
    finally:
        sys.path.remove(str(Path.cwd()))


def _from_file(path: Path) -> Any:
    """Runs the file as a module of its own; what it imports from beside it is found."""
    from importlib.util import module_from_spec, spec_from_file_location

    if not path.is_file():
        raise DpsimError(f"{path}: must be a Python file, but there is none of this name")
    spec = spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    # First, as Python has it for a script: what stands beside the file is meant.
    sys.path.insert(0, str(path.resolve().parent))
    try:
        spec.loader.exec_module(module)
    finally:
        sys.path.pop(0)
    return module


class explained:  # noqa: N801 - reads as what it does
    """Turns whatever a user's code raises into one line of DpsimError."""

    def __init__(self, factory: str, what: str) -> None:
        self._factory = factory
        self._what = what

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: Any, problem: BaseException | None, traceback: Any) -> None:
        if isinstance(problem, DpsimError):
            return
        # A factory that calls sys.exit is one that failed: the other points of a sweep go on.
        if isinstance(problem, SystemExit):
            raise DpsimError(f"{self._factory}: {self._what}: it calls sys.exit") from problem
        if isinstance(problem, Exception):
            said = " ".join(str(problem).split()) or type(problem).__name__
            said = said if len(said) <= _LONGEST_TEXT else said[: _LONGEST_TEXT - 3] + "..."
            raise DpsimError(f"{self._factory}: {self._what}: {said}") from problem
