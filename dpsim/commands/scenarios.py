"""``dpsim scenarios``: the scenario files that come with dpsim."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated

import typer

from dpsim.base.errors import DpsimError, UnknownNameError
from dpsim.base.terminal import save, show, show_answer
from dpsim.commands.options import Json, Output

_LONGEST = 110  # characters of a line about a scenario
_SHORTEST = 40  # of a sentence that is long enough alone


def scenarios(
    name: Annotated[
        str | None, typer.Argument(help="Name of the scenario to copy.", show_default=False)
    ] = None,
    output: Output = None,
    as_json: Json = False,
) -> None:
    """List the scenarios that come with dpsim, a line each; or copy one.

    Example: dpsim scenarios
    Example: dpsim scenarios llm/llama3-8b-8xh100 -o llama.yaml
    """
    from dpsim.scenario import shipped

    files = shipped()
    if name is None and output is not None:
        raise DpsimError(
            f"-o {output}: must be given with the scenario to copy, but is given alone"
        )
    if name is not None:
        _copy(name, files, output)
        return
    rows = [
        {"name": name, "about": about(path.read_text(encoding="utf-8")), "path": str(path)}
        for name, path in files.items()
    ]
    if as_json:
        show_answer("scenarios", rows=rows)
        return
    from dpsim.report.text.tables import catalogue_table

    show(catalogue_table([{"name": row["name"], "about": row["about"]} for row in rows]))


def about(text: str) -> str:
    """Return the start of the comment at the top of a scenario, to fit on a line.

    A sentence, or if it is long the part up to a colon, a semicolon or a comma.
    """
    comment = re.match(r"(#.*\n)*", text)
    assert comment is not None  # of no lines at least
    words = " ".join(line.lstrip("# ") for line in comment[0].splitlines())
    line = ""
    for part in re.split(r"(?<=[.:;,!?]) ", words):
        is_sentence = len(line) >= _SHORTEST and line.endswith((".", "?", "!"))
        if line and (is_sentence or len(line) + len(part) >= _LONGEST):
            break
        line = f"{line} {part}".strip()
    return line.rstrip(".:;,")[:_LONGEST]


def _copy(name: str, files: dict[str, Path], output: Path | None) -> None:
    if name not in files:
        raise UnknownNameError("scenario", name, files)
    text = files[name].read_text(encoding="utf-8")
    if output is None:
        typer.echo(text, nl=False)
        return
    save(output, text, f": dpsim run {output}")
