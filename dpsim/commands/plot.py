"""``dpsim plot``: draw an answer."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dpsim.base.errors import DpsimError
from dpsim.base.terminal import narrate, show_answer
from dpsim.commands.options import Json

if TYPE_CHECKING:
    import plotly.graph_objects as go


def plot(
    results: Annotated[
        Path,
        typer.Argument(
            help=(
                "JSON of run, compare, scale, collective, explain, converge, calibrate; a sweep's "
                "folder."
            ),
            show_default=False,
        ),
    ],
    output: Annotated[
        Path | None,
        typer.Option(
            "-o",
            "--output",
            help="Draw the figure to this file: .html, or .png, .svg (extra plot, Chromium).",
        ),
    ] = None,
    as_json: Json = False,
) -> None:
    """Draw another command's --json output to a file.

    Example: dpsim scale scenarios/quickstart.yaml --json > scale.json &&
        dpsim plot scale.json -o scale.html
    """
    from dpsim.report.plots.files import check_ending, write_figure

    if output is not None:
        check_ending(output)
    figure = _figure(results)
    if output is not None:
        write_figure(figure, output)
        narrate(f"wrote {output}")
    if as_json:
        answer = {"output": None if output is None else str(output)}
        # Encoded by plotly, which supports its arrays, and parsed again.
        drawn = json.loads(figure.to_json())
        show_answer("plot", **answer, figure=drawn)
    elif output is None:
        raise DpsimError("must have -o FILE to draw to, or --json, but got neither")


def _figure(results: Path) -> go.Figure:
    from dpsim.report.pages.result_files import as_printed, read_json
    from dpsim.report.plots.figure import answer_figure, figure_of

    with as_printed(str(results)):
        if results.is_dir():
            return figure_of(results)
        content = read_json(results)
        return answer_figure(content if isinstance(content, dict) else {}, str(results))
