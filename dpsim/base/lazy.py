"""Imports on demand, so that a command loads only what it needs.

A package whose exports are not all needed at once imports them only for type checkers, and gets
the rest from here::

    if TYPE_CHECKING:
        from dpsim.network.servers import ServersModel
    else:
        __getattr__, __dir__ = on_demand(__name__, __file__)

    __all__ = ["ServersModel"]

An export with the name of its own module is imported directly, above: importing that module sets
the module as an attribute of the package, where the export would be looked up.
"""

from __future__ import annotations

import ast
import os
import sys
from collections.abc import Callable, Iterator
from importlib import import_module
from pathlib import Path
from pkgutil import resolve_name
from typing import Any


def on_demand(package: str, file: str) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """Return ``__getattr__`` and ``__dir__`` of a package that imports exports on demand.

    ``file`` is the package's ``__init__``, whose ``if TYPE_CHECKING`` block has the imports.
    """
    # Take the list of imports from the block for type checkers, because a second list could differ.
    homes = dict(_homes(ast.parse(Path(file).read_text(encoding="utf-8"))))

    def load(name: str) -> Any:
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        export = resolve_name(homes[name])
        setattr(sys.modules[package], name, export)  # Python calls this only for missing attributes
        return export

    def names() -> list[str]:
        return sorted({*vars(sys.modules[package]), *homes})

    return load, names


class Shown:
    """An answer that a notebook displays like its command's output.

    The code for that is imported on demand: packages that compute do not depend on the display.
    """

    __slots__ = ()

    def to_json(self) -> dict[str, Any]:
        """Return the JSON object of its command."""
        raise NotImplementedError

    def to_rows(self) -> list[dict[str, Any]]:
        """Return its rows, or itself as the only one; nested values are named ``outer.inner``."""
        rows: list[dict[str, Any]] = resolve_name("dpsim.base.terminal:flat_rows")(self.to_json())
        return rows

    def to_pandas(self) -> Any:
        """Return its rows as a DataFrame. Raises FailedError without pandas."""
        return _frame("pandas", self.to_rows())

    def to_polars(self) -> Any:
        """Return its rows as a DataFrame. Raises FailedError without polars."""
        return _frame("polars", self.to_rows())

    def plot(self, path: str | os.PathLike[str] | None = None) -> Any:
        """Return its plotly figure, which a notebook shows; written to ``path`` if given.

        ``.html``, or ``.png`` and ``.svg`` by kaleido and a browser. Raises DpsimError if it has no
        figure.
        """
        figure = resolve_name("dpsim.report.plots.figure:figure_of")(self)
        if path is not None:
            resolve_name("dpsim.report.plots.files:write_figure")(figure, Path(path))
        return figure

    def _repr_html_(self) -> str:
        html: str = resolve_name("dpsim.report.plots.notebook:html_of")(self)
        return html


def _frame(library: str, rows: list[dict[str, Any]]) -> Any:
    from dpsim.base.errors import FailedError

    try:
        return import_module(library).DataFrame(rows)
    except ImportError:
        raise FailedError(f"{library} is needed: pip install {library}") from None


def _homes(tree: ast.Module) -> Iterator[tuple[str, str]]:
    """Yield each name that is imported under ``if TYPE_CHECKING``, and its home."""
    for block in tree.body:
        if not (isinstance(block, ast.If) and ast.unparse(block.test) == "TYPE_CHECKING"):
            continue
        for statement in block.body:
            if not isinstance(statement, ast.ImportFrom):
                continue  # a type made of imported names
            for alias in statement.names:
                yield alias.name, f"{statement.module}:{alias.name}"
