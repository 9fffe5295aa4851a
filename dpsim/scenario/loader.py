"""Load scenario files into validated models.

Every problem is a line of one ScenarioError, with file, line, column, path and rule.
"""

from __future__ import annotations

import os
import pathlib
import stat
from collections.abc import Iterable, Iterator

from pydantic import BaseModel, ValidationError

from dpsim.base.errors import DpsimError, ScenarioError
from dpsim.base.files import read_limited, shown_path
from dpsim.scenario.document import Document, Model, Node, Place, Problem, error, show
from dpsim.scenario.schema import Scenario
from dpsim.scenario.shape import shape_at
from dpsim.scenario.yaml_text import from_text

MAX_BYTES = 2**20


def load_scenario(path: str | os.PathLike[str], overrides: Iterable[str] = ()) -> Scenario:
    """Load the scenario from the YAML file at ``path``.

    Applies ``key=value`` overrides (dotted paths). Raises ScenarioError with every problem in the
    file, each with line, column, path and rule.
    """
    return load(path, Scenario, overrides)


def load(path: str | os.PathLike[str], model: type[Model], overrides: Iterable[str] = ()) -> Model:
    """Load the ``model`` from the YAML file at ``path``, with ``key=value`` overrides applied.

    Raises ScenarioError with a line for each problem; an override's problem begins with ``--set
    key=value``.
    """
    document = load_yaml(path)
    overrides = tuple(overrides)
    if overrides:
        from dpsim.scenario.overrides import apply_overrides

        document = apply_overrides(document, overrides, model)
    return validate(document, model)


def validate(
    document: Document, model: type[Model], folder: os.PathLike[str] | None = None
) -> Model:
    """Return the ``model`` with a document's values.

    Raises ScenarioError with all problems, sorted by place.

    Files named in a scenario are searched in ``folder``, or beside the document if that is None.
    """
    booleans = list(_misplaced_booleans(document.root, model))
    values = document.plain()
    refused: list[Problem] = []
    try:
        looked_in = pathlib.Path(document.source).parent if folder is None else folder
        checked = model.model_validate(values, context={"folder": looked_in})
    except ValidationError as err:
        from dpsim.scenario.wording import problems  # loaded only for errors

        refused = problems(err.errors(include_url=False), model, document.root)
    # If a boolean replaces a number, pydantic may report another problem with it, or none.
    paths = {problem.path for problem in booleans}
    listed = [*booleans, *(problem for problem in refused if problem.path not in paths)]
    if listed:
        raise error(listed)
    return checked


def _misplaced_booleans(root: Node, model: type[BaseModel]) -> Iterator[Problem]:
    """Yield booleans where a number is expected, which pydantic would accept as 0 and 1."""
    for path, node in root.leaves():
        if not isinstance(node.value, bool):
            continue
        wanted = set(shape_at(root, model, path).options)
        if wanted and wanted <= {int, float}:
            number = "a number" if float in wanted else "an integer"
            yield Problem(node.place, path, f"must be {number}, but got {show(node)}")


def load_yaml(path: str | os.PathLike[str]) -> Document:
    """Return the mapping in a YAML 1.2 file, each value with its line and column.

    Raises ScenarioError if the file cannot be read, is larger than 1 MiB, or is not one YAML
    mapping in UTF-8.
    """
    source = os.fspath(path)
    # Control characters in a name could alter the terminal's output.
    source = source if source.isprintable() else repr(source)
    return from_text(_text(path, source), source)


def _copies(path: str | os.PathLike[str]) -> str:
    """Return a hint on how to get the file, if it comes with dpsim."""
    from dpsim.scenario.shipped_files import shipped_as

    name = shipped_as(path)
    return "" if name is None else f"; dpsim scenarios {name} -o FILE copies dpsim's"


def _text(path: str | os.PathLike[str], source: str) -> str:
    def refuse(rule: str, line: int | None = None, column: int = 1) -> ScenarioError:
        return error([Problem(Place(source, line, column), (), rule)])

    try:
        status = os.stat(path)
        if stat.S_ISDIR(status.st_mode):
            raise refuse("must be a YAML file, but got a directory")
        if status.st_size > MAX_BYTES:
            raise refuse(f"must be at most {MAX_BYTES:,} bytes, but got {status.st_size:,}")
        data = read_limited(path, MAX_BYTES)
    except FileNotFoundError:
        raise refuse(f"must be a YAML file, but there is no such file{_copies(path)}") from None
    except OSError as err:
        raise refuse(f"must be a file that can be read, but: {err.strerror}") from None
    # An error of `refuse` has its place already, and would match DpsimError below.
    except ScenarioError:
        raise
    except DpsimError as err:
        message = str(err).removeprefix(f"{shown_path(path)}: ")
        rule = message.replace("cannot be read", "must be a file that can be read, but")
        raise refuse(rule) from None
    except ValueError:  # a null byte in the name
        raise refuse("must be a file's name") from None
    try:
        # Some editors write a byte order mark first.
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as err:
        before = data[: err.start]
        line = before.count(b"\n") + 1
        # Columns count characters, without the byte order mark.
        line_so_far = before[before.rfind(b"\n") + 1 :].decode("utf-8-sig", "replace")
        rule = f"must be text in UTF-8, but got the byte 0x{data[err.start]:02x}"
        raise refuse(rule, line, len(line_so_far) + 1) from None
