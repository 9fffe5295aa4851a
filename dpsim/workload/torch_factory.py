"""Find and call a user's function that returns a torch module, and explain its errors."""

from __future__ import annotations

import importlib
import re
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from dpsim.base.errors import DpsimError, how_to_install
from dpsim.base.files import CODE_REFUSED, runs_code

_LONGEST_TEXT = 300


def check_factory(factory: str) -> tuple[str, str, str]:
    """Split ``package.module:factory`` or ``file.py:factory``. Raises DpsimError otherwise."""
    where, colon, name = factory.rpartition(":")
    module = re.fullmatch(r"[^\W\d]\w*(\.[^\W\d]\w*)*", where) or where.endswith(".py")
    if not (colon and module and re.fullmatch(r"[^\W\d]\w*(\.[^\W\d]\w*)*", name)):
        raise DpsimError(f"must be package.module:factory or file.py:factory, but got {factory!r}")
    return where, colon, name


def refuse_forbidden(factory: str) -> None:
    """Raise DpsimError if running user code is forbidden."""
    if not runs_code():
        raise DpsimError(f"{CODE_REFUSED}, but names {factory!r}")


def import_torch(what: str = "a torch model") -> Any:
    """Return the torch package, which ``what`` needs. Raises DpsimError if it is not installed."""
    try:
        return importlib.import_module("torch")
    except ImportError:
        raise DpsimError(f"{what} needs torch; {how_to_install('validate')}") from None


def find_factory(factory: str) -> Callable[[], Any]:
    """Return the function that ``factory`` names.

    Modules are searched on Python's path and then in the current folder.
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
    # At the end, so that no file in the folder hides an installed module.
    sys.path.append(str(Path.cwd()))
    try:
        return importlib.import_module(name)
    finally:
        sys.path.remove(str(Path.cwd()))


def _from_file(path: Path) -> Any:
    """Run the file as a module; its imports from the same folder are found."""
    from importlib.util import module_from_spec, spec_from_file_location

    if not path.is_file():
        raise DpsimError(f"{path}: must be a Python file, but there is no such file")
    spec = spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    # At the start, as Python does for a script.
    sys.path.insert(0, str(path.resolve().parent))
    try:
        spec.loader.exec_module(module)
    finally:
        sys.path.pop(0)
    return module


@contextmanager
def explained(factory: str, what: str) -> Iterator[None]:
    """Turn any exception of a user's code into one line of DpsimError."""
    try:
        yield
    except DpsimError:
        raise
    # A factory that calls sys.exit has failed, but must not end a sweep.
    except SystemExit as problem:
        raise DpsimError(f"{factory}: {what}: it calls sys.exit") from problem
    except Exception as problem:
        text = " ".join(str(problem).split()) or type(problem).__name__
        text = text if len(text) <= _LONGEST_TEXT else text[: _LONGEST_TEXT - 3] + "..."
        raise DpsimError(f"{factory}: {what}: {text}") from problem
