"""Shared parts of the commands of ``dpsim import``."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer

from dpsim.base.errors import DpsimError
from dpsim.base.terminal import narrate, save, show_answer, show_json

if TYPE_CHECKING:
    from dpsim.hardware import CalibrationProfile
    from dpsim.imports.scenario_draft import ScenarioDraft
    from dpsim.scenario import Scenario
    from dpsim.workload import ModelProfile

T = TypeVar("T")
_ASSUMED = "assumed: "  # prefix of a note on an assumption

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
    """Report taken, assumed (with their effect) and ignored values of a file."""
    for word, lines in (("taken", taken), ("assumed", assumed), ("ignored", ignored)):
        for line in [*lines] or ["nothing"]:
            narrate(f"{word}: {line}")


def summarise_notes(taken: Iterable[str], notes: Iterable[str]) -> None:
    """Report taken values, and notes, sorted into assumptions and ignored parts."""
    notes = list(notes)
    assumed = [note.removeprefix(_ASSUMED) for note in notes if note.startswith(_ASSUMED)]
    ignored = [note.removeprefix("ignored: ") for note in notes if not note.startswith(_ASSUMED)]
    summarise(taken, assumed, ignored)


def show_scenario(file: Path, draft: ScenarioDraft, output: Path | None, as_json: bool) -> None:
    """Validate the scenario, and write or print it."""
    text = draft.to_yaml()
    try:
        parse_scenario(text, output or file.with_suffix(".yaml"))
    except DpsimError as error:
        raise DpsimError(f"{file}: {error}") from None
    summarise(draft.taken, draft.assumed, draft.ignored_lines)
    deliver(text, output, as_json, "import-scenario", draft.to_json())


def parse_scenario(text: str, path: Path) -> Scenario:
    """Return the scenario in ``text``, for a file at ``path``. Raises DpsimError if invalid."""
    from dpsim.scenario import Scenario, from_text, validate

    try:
        return validate(from_text(text, str(path)), Scenario)
    except DpsimError as error:
        raise DpsimError(f"does not make a scenario: {str(error).splitlines()[0]}") from None


def deliver(
    text: str,
    output: Path | None,
    as_json: bool,
    kind: str,
    content: dict[str, Any],
    more: str = "",
) -> None:
    """Write ``text`` to a file, or print it; with ``as_json`` print its ``content`` instead."""
    if output is not None:
        save(output, text, more)
    if as_json:
        show_answer(kind, **content)
    elif output is None:
        typer.echo(text, nl=False)


def deliver_profile(
    profile: CalibrationProfile | ModelProfile, output: Path | None, as_json: bool
) -> None:
    """Write a profile to a file, and print it if there is none or ``as_json``.

    As CSV a model's has a row for each layer.
    """
    if output is not None:
        save(output, profile.to_json())
    if output is None or as_json:
        rows = getattr(profile, "rows", None)
        show_json(profile.model_dump(mode="json"), rows)
