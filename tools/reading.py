"""How easily the sources are read: ``python -m tools.reading`` prints it beside other projects.

Only lines that are not blank count. *Nodes a line* is the number of nodes of the syntax tree, from
``ast.walk``, over those lines: a measure of density. *Long* lines have more than 100 columns.
*Comments* are lines with nothing else. A function's length is its lines from ``def`` to the end
without its docstring.

The last lines show how far a reader who follows one run in a debugger has to jump: the functions of
dpsim that a warm ``dpsim run scenarios/quickstart.yaml`` calls, at their first call, the number of
their files, and how often the next one is in another file. Warm means that the same process has run
it before, so that imports and caches do not count.
"""

from __future__ import annotations

import argparse
import ast
import contextlib
import importlib.util
import io
import os
import statistics
import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from pathlib import Path
from types import CodeType, FrameType

import dpsim
from dpsim import cli

ROOT = Path(dpsim.__file__).parents[1]
TOP_LEVEL = ("dpsim", "validate", "app", "tools")
# Packages that Python readers find easy: parsed, never imported.
BESIDE = {
    "simpy": "core.py",
    "httpx": "_client.py",
    "optuna": "samplers",
}
LONG = 100
SCENARIO = "scenarios/quickstart.yaml"

_HEADINGS = ("", "lines", "nodes/line", "long", "comments", "median", "p90", "longest function")
_COLUMNS = "{:<44} {:>7} {:>10} {:>7} {:>8} {:>6} {:>5}  {}"

Function = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True)
class Reading:
    """The counts of one or several files."""

    lines: int
    nodes: int
    long: int
    comments: int
    functions: tuple[tuple[int, str], ...]
    """The length and the name of each function."""

    @property
    def nodes_a_line(self) -> float:
        """The syntax nodes per line that is not blank."""
        return self.nodes / self.lines if self.lines else 0.0

    def row(self, name: str) -> str:
        """Return a line of the table."""
        lengths = sorted(length for length, _ in self.functions) or [0]
        longest, function = max(self.functions, default=(0, ""))
        return _COLUMNS.format(
            name,
            self.lines,
            f"{self.nodes_a_line:.1f}",
            f"{self.long / max(self.lines, 1):.1%}",
            f"{self.comments / max(self.lines, 1):.1%}",
            round(statistics.median(lengths)),
            lengths[int(0.9 * (len(lengths) - 1))],
            f"{longest} {function}",
        )


def read(source: str) -> Reading:
    """Return the counts of the text of one file."""
    nodes = list(ast.walk(ast.parse(source)))
    lines = source.splitlines()
    functions = [node for node in nodes if isinstance(node, Function)]
    return Reading(
        lines=_filled(lines),
        nodes=len(nodes),
        long=sum(len(line) > LONG for line in lines),
        comments=sum(line.lstrip().startswith("#") for line in lines),
        functions=tuple((_length(function, lines), function.name) for function in functions),
    )


def together(readings: Iterable[Reading]) -> Reading:
    """Return the sum of the counts of several files."""
    each = list(readings)
    return Reading(
        lines=sum(one.lines for one in each),
        nodes=sum(one.nodes for one in each),
        long=sum(one.long for one in each),
        comments=sum(one.comments for one in each),
        functions=tuple(function for one in each for function in one.functions),
    )


@cache
def read_below(path: Path) -> dict[Path, Reading]:
    """Return the counts of each Python file below a folder, or of the single file ``path``."""
    files = [path] if path.is_file() else sorted(path.rglob("*.py"))
    return {file: read(file.read_text(encoding="utf-8")) for file in files}


def readings() -> dict[Path, Reading]:
    """Return the counts of each file of this project's packages."""
    found: dict[Path, Reading] = {}
    for top in TOP_LEVEL:
        found |= read_below(ROOT / top)
    return found


def rooms(files: dict[Path, Reading]) -> dict[str, Reading]:
    """Return the counts of top-level packages and of the packages directly in them."""
    members: dict[str, list[Reading]] = {}
    for path, reading in files.items():
        parts = path.relative_to(ROOT).parent.parts
        members.setdefault(parts[0], []).append(reading)
        if len(parts) > 1:
            members.setdefault("/".join(parts[:2]), []).append(reading)
    return {name: together(members[name]) for name in sorted(members)}


def installed(package: str, part: str) -> Path | None:
    """Return the path of a file or folder of a package; None where it is not installed."""
    found = importlib.util.find_spec(package)
    if found is None or not found.submodule_search_locations:
        return None
    return Path(found.submodule_search_locations[0]) / part


@dataclass(frozen=True)
class FirstCalls:
    """The functions that a run calls, each counted at its first call."""

    functions: int
    files: int
    changes: int
    """How often the next function stands in another file."""


def first_calls(run: Callable[[], object], folder: Path) -> FirstCalls:
    """Count the functions below ``folder`` that ``run`` calls in this thread.

    Lambdas and comprehensions are part of the function that contains them.
    """
    # A dictionary keeps the order of the first calls, unlike a set.
    called: dict[CodeType, None] = {}
    below = f"{folder}{os.sep}"

    def note(frame: FrameType, event: str, _: object) -> None:
        code = frame.f_code
        # "<lambda>", "<listcomp>" and the like.
        named = not code.co_name.startswith("<")
        if event == "call" and named and code.co_filename.startswith(below):
            called.setdefault(code)

    sys.setprofile(note)
    try:
        run()
    finally:
        sys.setprofile(None)
    files = [code.co_filename for code in called]
    changes = sum(here != there for here, there in pairwise(files))
    return FirstCalls(len(files), len(set(files)), changes)


def run_quickstart() -> None:
    """Run ``dpsim run scenarios/quickstart.yaml`` in this process, and discard its output."""
    before = sys.argv
    sys.argv = ["dpsim", "run", str(ROOT / SCENARIO)]
    try:
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
            cli.main()
    except SystemExit as ended:
        if ended.code:
            raise
    finally:
        sys.argv = before


def report(most_files: int) -> Iterator[str]:
    """Yield the lines of the report."""
    every = readings()
    yield _COLUMNS.format(*_HEADINGS)
    for name, reading in rooms(every).items():
        yield reading.row(name)
    yield ""
    for package, part in BESIDE.items():
        path = installed(package, part)
        name = f"{package}/{part}"
        yield f"{name}: not installed" if path is None else _whole(path).row(name)
    yield ""
    densest = sorted(every, key=lambda path: -every[path].nodes_a_line)
    for path in densest[:most_files]:
        yield every[path].row(str(path.relative_to(ROOT)))
    yield ""
    # A first run that does not count, for imports and caches.
    run_quickstart()
    calls = first_calls(run_quickstart, ROOT / "dpsim")
    yield (
        f"a warm dpsim run {SCENARIO}: {calls.functions} functions, {calls.files} files, "
        f"{calls.changes} changes of file"
    )


def main() -> None:
    """Print the report; ``--files`` is the number of the densest files to list."""
    about, *_ = (__doc__ or "").partition(":")
    parser = argparse.ArgumentParser(prog="python -m tools.reading", description=f"{about}.")
    parser.add_argument("--files", type=int, default=20, help="files listed, the densest first")
    for line in report(parser.parse_args().files):
        sys.stdout.write(f"{line}\n")


def _whole(path: Path) -> Reading:
    return together(read_below(path).values())


def _filled(lines: Iterable[str]) -> int:
    return sum(bool(line.strip()) for line in lines)


def _length(function: Function, lines: list[str]) -> int:
    whole = _filled(lines[function.lineno - 1 : function.end_lineno])
    if ast.get_docstring(function) is None:
        return whole
    docstring = function.body[0]
    return whole - _filled(lines[docstring.lineno - 1 : docstring.end_lineno])


if __name__ == "__main__":
    main()
