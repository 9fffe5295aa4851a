"""``dpsim report``: write results as one page."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from dpsim.base.terminal import narrate, show_answer, write_whole
from dpsim.commands.options import Json


def report(
    results: Annotated[
        list[Path],
        typer.Argument(
            help="JSON of run, compare, scale, collective or explain; folders of sweeps.",
            show_default=False,
        ),
    ],
    html: Annotated[Path, typer.Option(help="Write a self-contained page to this file.")],
    as_json: Json = False,
) -> None:
    """Write results as one self-contained HTML page.

    It has the table, figures, assumptions, calibration and omissions.

    Example: dpsim run scenarios/quickstart.yaml --json > run.json &&
        dpsim report run.json --html report.html
    """
    from dpsim.report.pages.page import report_page
    from dpsim.report.pages.result_files import read_results

    sources = list(map(read_results, results))
    write_whole(html, report_page(sources))
    if as_json:
        read = [
            {"path": source.name, "kind": source.kind, "rows": len(source.rows)}
            for source in sources
        ]
        show_answer("report", html=str(html), sources=read)
    else:
        narrate(f"wrote {html}")
