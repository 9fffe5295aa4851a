"""``dpsim results``: query the results of a sweep in SQL."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from dpsim.base.errors import DpsimError
from dpsim.base.terminal import csv_text, narrate, show, show_json
from dpsim.commands.options import Json, Plot, check_plot, draw


def results(
    folder: Annotated[
        Path, typer.Argument(help="Results folder of dpsim sweep -o.", show_default=False)
    ],
    sql: Annotated[
        str | None, typer.Option(help="A SQL select statement on the table `results`.")
    ] = None,
    pareto: Annotated[
        str | None,
        typer.Option(
            metavar="A,B",
            help="Only the Pareto front of two columns: price,time, or others.",
        ),
    ] = None,
    plot: Plot = None,
    as_json: Json = False,
    as_csv: Annotated[bool, typer.Option("--csv", help="Print CSV instead of a table.")] = False,
) -> None:
    """Show a sweep's results, or query them in SQL (DuckDB).

    Without SQL the table has the varied fields and five results; JSON and CSV have all columns.
    Each point is a row. A varied field is named by its last word, or by its full path if
    two share that word: "strategy.sync.kind".

    Example: dpsim results results/
    Example: dpsim results results/
        --sql "select nodes, step_time_s from results order by step_time_s"
    Example: dpsim results results/ --sql "describe results"
    Example: dpsim results results/ --pareto price,time --plot front.html
    """
    from dpsim.studies.sweep import pareto_points, query

    check_plot(plot)
    if sql is not None and (pareto or plot):
        raise DpsimError("--sql must not be given with --pareto or --plot, but got both")
    if as_json and as_csv:
        raise DpsimError("--json must not be given with --csv, but got both")
    if pareto is not None:
        front = pareto_points(folder, pareto)
        answer, every, notes = front.front, front.all, front.notes
    else:
        every, notes = None, list[str]()
        answer = query(folder) if sql is None else query(folder, sql)
    draw(plot, folder if pareto is None else front)
    if answer.damage:
        narrate(f"note: {answer.damage}")
    if answer.done < answer.points:
        narrate(
            f"note: {answer.done:,} of {answer.points:,} points are computed; dpsim sweep --resume "
            "computes the others"
        )
    if as_json:
        show_json(answer.to_json())
    elif as_csv:
        sys.stdout.write(csv_text([answer.columns, *answer.rows]))
    else:
        from dpsim.report.text.sweep import answer_table, sweep_notes, sweep_table

        if sql is None:
            show(sweep_table(answer, among=every), *notes, *sweep_notes(answer))
        else:
            show(answer_table(answer))
