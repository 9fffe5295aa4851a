"""Shared parts of the commands of ``dpsim import``."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeVar

import typer

from dpsim.base.errors import DpsimError
from dpsim.base.terminal import narrate, show_json, write_whole

if TYPE_CHECKING:
    from dpsim.imports.scenario_draft import ScenarioDraft

T = TypeVar("T")
_ASSUMED = "assumed: "  # prefix of a note on an assumption

Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]
KnownModel = Annotated[
    str | None,
    typer.Option("--model", metavar="NAME", help="The model (dpsim catalogue models)."),
]
KnownNode = Annotated[
    str | None,
    typer.Option("--node", metavar="NAME", help="The kind of node (dpsim catalogue nodes)."),
]
TracedBatch = Annotated[
    int | None,
    typer.Option(
        "--batch", min=1, help="Samples per GPU and step; read from recorded shapes if left out."
    ),
]


def read_file(file: Path, parse: Callable[[bytes], T]) -> T:
    """Return ``parse`` of the file's content; errors begin with the file's name and the line."""
    from dpsim.imports.reading import ImportFileError, read_input

    content = read_input(file)
    try:
        return parse(content)
    except ImportFileError as problem:
        raise problem.of(file) from None


def summarise(taken: Iterable[str], assumed: Iterable[str], ignored: Iterable[str]) -> None:
    """Report what was taken from a file, what was assumed with its effect, and what was ignored."""
    for word, lines in (("taken", taken), ("assumed", assumed), ("ignored", ignored)):
        for line in [*lines] or ["nothing"]:
            narrate(f"{word}: {line}")


def summarise_notes(taken: Iterable[str], notes: Iterable[str]) -> None:
    """Report what was taken, and notes, sorted into assumptions and ignored parts."""
    notes = list(notes)
    assumed = [note.removeprefix(_ASSUMED) for note in notes if note.startswith(_ASSUMED)]
    ignored = [note.removeprefix("ignored: ") for note in notes if not note.startswith(_ASSUMED)]
    summarise(taken, assumed, ignored)


def show_scenario(file: Path, draft: ScenarioDraft, output: Path | None, as_json: bool) -> None:
    """Validate the scenario, and write or print it."""
    from dpsim.scenario import Scenario, from_text, validate

    text = draft.to_yaml()
    try:
        # The text instead of the draft, so that the file's content is what is validated.
        validate(from_text(text, str(output or file.with_suffix(".yaml"))), Scenario)
    except DpsimError as error:
        first = str(error).splitlines()[0]
        raise DpsimError(f"{file}: does not make a scenario: {first}") from None
    summarise(draft.taken, draft.assumed, [f"{key}: {why}" for key, why in draft.ignored])
    if output is not None:
        write_whole(output, text)
        narrate(f"wrote {output}")
    if as_json:
        show_json({"schema_version": 1, "kind": "import-scenario", **draft.to_json()})
    elif output is None:
        typer.echo(text, nl=False)
