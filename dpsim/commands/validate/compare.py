"""``dpsim validate compare``: errors of predictions over files of runs."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dpsim.base.errors import DpsimError
from dpsim.base.terminal import narrate, save, show, show_json
from dpsim.commands.options import Json
from dpsim.commands.progress import progress

if TYPE_CHECKING:
    from validate.compare.comparison import Comparison


Runs = Annotated[
    list[Path],
    typer.Argument(
        help="Files of runs, .json or .json.gz, or folders of them.", show_default=False
    ),
]
Html = Annotated[
    Path | None,
    typer.Option(help="Write a page with a picture to this path.", show_default=False),
]
Tolerance = Annotated[
    str | None,
    typer.Option(
        help='Exit with 3 if the mean error of a kind is above this: "10%".',
        show_default=False,
    ),
]
Again = Annotated[
    bool,
    typer.Option("--again", help="Predict steps again, from the scenarios named in the runs."),
]


def compare(
    runs: Runs,
    html: Html = None,
    tolerance: Tolerance = None,
    again: Again = False,
    as_json: Json = False,
) -> None:
    """Compare predictions with measurements.

    Shows errors by kind, the choices made, and the worst cases.

    Example: dpsim validate compare validate/recorded/
    Example: dpsim validate compare validate/recorded/steps.json.gz --again --tolerance 10%
    """
    most = None if tolerance is None else _fraction(tolerance)
    from validate.compare.comparison import Comparison, predict_again
    from validate.compare.figure import page
    from validate.records import records_of

    records = records_of(runs)
    if again:
        with progress("predicting", len(records)) as done:
            records = predict_again(records, done)
    comparison = Comparison(records)
    if html is not None:
        save(html, page(comparison))
    if as_json:
        show_json(comparison.to_json())
    else:
        _show(comparison)
    _judge(comparison, most)


def _fraction(text: str) -> float:
    """Return the fraction in ``10%`` or ``0.1``."""
    try:
        fraction = float(text.removesuffix("%")) / (100 if text.endswith("%") else 1)
    except ValueError:
        fraction = -1.0
    # 10 for ten per cent is a mistake that would accept everything.
    if not 0 <= fraction < float("inf") or (fraction > 1 and not text.endswith("%")):
        raise DpsimError(f"--tolerance must be a share such as 10% or 0.1, but got {text!r}")
    return fraction


def _judge(comparison: Comparison, tolerance: float | None) -> None:
    if tolerance is None:
        return
    if comparison.overall is None:
        raise DpsimError("--tolerance must have cases to judge, but no run counts")
    if not comparison.within(tolerance):
        narrate(f"dpsim: the mean error of a kind is above the tolerance of {tolerance:.1%}")
        raise typer.Exit(3)  # the comparison ran: 1 would mean that it failed


def _show(comparison: Comparison) -> None:
    from dpsim.report.text.errors import errors_table
    from validate.compare.comparison import NEAR

    groups = {name: score.to_json() for name, score in comparison.groups.items()}
    show(errors_table("absolute percentage errors", "cases of", groups))
    fitted = sum(record.fitted for record in comparison.records)
    if fitted:
        show(f"fitted on, and not counted: {fitted} cases")
    wrong = [choice for choice in comparison.choices if choice.regret > NEAR]
    tried = len(comparison.choices)
    if tried:
        show(
            "",
            f"choices: in {tried - len(wrong)} of {tried} settings the predicted fastest is the "
            f"fastest, or within {NEAR:.0%} of it",
        )
    show(
        *(
            f"  {each.setting}: {each.predicted} instead of {each.measured}, {each.regret:.1%} "
            "slower"
            for each in wrong
        )
    )
    show("", "worst cases:", *(f"  {cause}" for cause in comparison.worst))
