"""Arguments and options of several commands, and their parsing."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeVar

import typer

from dpsim.base.errors import DpsimError
from dpsim.base.terminal import narrate

if TYPE_CHECKING:
    from dpsim.studies.compare import Comparison, Scaling
    from dpsim.studies.scale import BatchStudy
    from dpsim.studies.tune import Tuning

T = TypeVar("T")


File = Annotated[Path, typer.Argument(help="A scenario file (YAML).", show_default=False)]
Sets = Annotated[
    list[str] | None,
    typer.Option(
        "--set", metavar="KEY=VALUE", help="Replace a value: cluster.nodes=8. Repeatable."
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]
Plot = Annotated[
    Path | None,
    typer.Option(
        "--plot",
        metavar="FILE",
        help="Draw the result to this file: .html, or .png, .svg (extra plot, Chromium).",
    ),
]
Tokens = Annotated[
    str | None,
    typer.Option(
        metavar="NUMBER", help="Also print days and cost of training on this many tokens: 300B, 1T."
    ),
]
Samples = Annotated[
    str | None,
    typer.Option(
        metavar="NUMBER", help="Also print days and cost of training on this many samples: 90M."
    ),
]
Epochs = Annotated[
    str | None,
    typer.Option(
        metavar="NUMBER", help="Also print days and cost of this many passes over the data set."
    ),
]
Output = Annotated[
    Path | None,
    typer.Option("-o", "--output", help="Output file; stdout if left out."),
]
Length = Annotated[int | None, typer.Option("--sequence-length", min=1, help="Tokens per sample.")]
Operation = Annotated[str, typer.Option(help="The collective operation.")]
Itemsize = Annotated[int, typer.Option(min=1, max=16, help="Bytes per element.")]


def check_plot(path: Path | None) -> None:
    """Raise DpsimError or FailedError early if ``--plot`` cannot be drawn."""
    if path is not None:
        from dpsim.report.plots.files import check_ending

        check_ending(path)


def draw(path: Path | None, answer: object) -> None:
    """Draw an answer, its JSON, or a sweep's folder to ``--plot``, if given."""
    if path is None:
        return
    from dpsim.report.plots.figure import figure_of
    from dpsim.report.plots.files import write_figure

    write_figure(figure_of(answer), path)
    narrate(f"wrote {path}")


def end_if_partial(study: Tuning | Comparison | Scaling | BatchStudy) -> None:
    """End with code 3 if time ran out before the ``study`` was complete; its answer was shown."""
    # Code 3: a part is missing (not 0), but the rest is usable (not 1).
    if study.partial:
        raise typer.Exit(3)


def read_option(option: str, read: Callable[[str], T], text: str) -> T:
    """Return ``read(text)``; errors name the option."""
    try:
        return read(text)
    except DpsimError as error:
        raise DpsimError(f"{option}: {error}") from None


def with_amount(
    overrides: Iterable[str] | None, tokens: str | None, samples: str | None, epochs: str | None
) -> list[str]:
    """Add the total training of ``--tokens``, ``--samples`` or ``--epochs`` to ``--set``.

    Raises DpsimError if they are not numbers, or several are given.
    """
    from dpsim.base.units import count

    amounts = {"tokens": tokens, "samples": samples, "epochs": epochs}
    stated = {name: text for name, text in amounts.items() if text is not None}
    if len(stated) > 1:
        several = " and ".join(f"--{name}" for name in stated)
        raise DpsimError(f"must have one of --tokens, --samples and --epochs, but got {several}")
    # Remove the file's other amounts, which would conflict with the option's.
    numbers = {name: read_option(f"--{name}", count, text) for name, text in stated.items()}
    others = [f"cost.{name}=null" for name in amounts if stated and name not in stated]
    return [*(overrides or ()), *others, *(f"cost.{name}={n!r}" for name, n in numbers.items())]


def whole_numbers(option: str, text: str) -> list[int]:
    """Parse comma-separated integers of at least 1. Raises DpsimError for others."""
    parts = [part.strip() for part in text.split(",")]
    # Check the length first, because Python refuses to parse thousands of digits as a number.
    if not all(part.isdecimal() and len(part) <= 9 and int(part) >= 1 for part in parts):
        raise DpsimError(
            f"{option}: must be whole numbers of at least 1, such as 1,2,4, but got {text[:60]!r}"
        )
    return [int(part) for part in parts]
