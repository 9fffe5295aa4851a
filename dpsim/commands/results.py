"""``dpsim results``: asks what a sweep found, in SQL."""

from __future__ import annotations

import csv
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dpsim.base.errors import DpsimError
from dpsim.base.terminal import narrate, show, show_json

if TYPE_CHECKING:
    from rich.table import Table

    from dpsim.studies.sweep import Answer

_DIGITS = 6


def results(
    folder: Annotated[
        Path, typer.Argument(help="The folder that dpsim sweep -o made.", show_default=False)
    ],
    sql: Annotated[
        str, typer.Option(help="A select statement about the table results.")
    ] = "select * from results",
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")] = False,
    as_csv: Annotated[bool, typer.Option("--csv", help="Print CSV instead of a table.")] = False,
) -> None:
    """Ask a sweep's results in SQL (DuckDB).

    One row a point, varied fields named by their last word.

    Where several varied fields, or a field and a result, have the same last word, they have their
    full paths: "strategy.sync.kind".

    Example: dpsim results results/
        --sql "select nodes, step_time_s from results order by step_time_s"
    Example: dpsim results results/ --sql "describe results"
    """
    from dpsim.studies.sweep import query

    if as_json and as_csv:
        raise DpsimError("--json must stand without --csv, but got both")
    answer = query(folder, sql)
    if answer.done < answer.points:
        narrate(
            f"note: {answer.done:,} of {answer.points:,} points are there; dpsim sweep --resume "
            "computes the others"
        )
    if as_json:
        show_json(answer.to_json())
    elif as_csv:
        csv.writer(sys.stdout, lineterminator="\n").writerows([answer.columns, *answer.rows])
    else:
        show(_table(answer))


def _table(answer: Answer) -> Table:
    from rich.table import Table

    table = Table(show_edge=False)
    for number, name in enumerate(answer.columns):
        counts = all(
            isinstance(row[number], (int, float)) or row[number] is None for row in answer.rows
        )
        table.add_column(name, justify="right" if counts else "left", overflow="fold")
    for row in answer.rows:
        table.add_row(*map(_cell, row))
    return table


def _cell(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float):
        return f"{value:.{_DIGITS}g}"
    return "" if value is None else str(value)
