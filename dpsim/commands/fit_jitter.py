"""``dpsim fit-jitter``: the disturbance that measured step times show."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from dpsim.base.terminal import narrate, show, show_json, write_whole
from dpsim.commands.options import Json, Plot, check_plot, draw

File = Annotated[
    Path,
    typer.Argument(
        help=(
            "A CSV file of steps: step_ms or step_s; rank and node if timed apart; job if "
            "there are several."
        ),
        show_default=False,
    ),
]
Output = Annotated[
    Path | None, typer.Option("-o", "--output", help="Write the block to this file.")
]
Job = Annotated[
    str | None,
    typer.Option("--job", help="Only this job of the file; all are pooled if left out."),
]


def fit_jitter(
    file: File,
    output: Output = None,
    job: Job = None,
    plot: Plot = None,
    as_json: Json = False,
) -> None:
    """Fit jitter, delays, stalls and slow workers to step times of your own cluster.

    Prints a disturbance block for a scenario, and quantiles of it beside those of the file. The
    plot has measured against drawn steps: their quantiles, and one after the other.

    Example: dpsim fit-jitter steps.csv -o disturbance.yaml
    Example: dpsim fit-jitter steps.csv --plot jitter.html
    """
    from dpsim.disturbance import fit_jitter as fitted
    from dpsim.disturbance import pooled, read_jobs

    check_plot(plot)
    jobs = read_jobs(file, job)
    times, nodes = pooled(file, list(jobs.values()))
    found = fitted(times, nodes)
    beside = found.quantiles(times, nodes)
    if as_json or plot is not None:
        rows = [{"job": name, **each.to_json()} for name, each in jobs.items()]
        median = rows[0]["median_s"] if len(rows) == 1 else None
        told = {"steps": len(times), "ranks": times.shape[1], "median_s": median}
        named = {"schema_version": 1, "kind": "fit-jitter", **told}
        fitted_on = {**named, "jobs": rows, "quantiles": beside, "disturbance": found.block()}
        answer = {**fitted_on, **found.curves(times, nodes)}
        draw(plot, answer)
        if as_json:
            show_json(answer)
            return
    text = block_text(found.block())
    if output is None:
        show(text)
    else:
        write_whole(output, text)
    for row in beside:
        narrate(
            f"{row['quantile']:.0%} of steps within {row['measured']:.3f} means, "
            f"{row['drawn']:.3f} as drawn"
        )


def block_text(block: object) -> str:
    """A ``disturbance`` block as text of a scenario."""
    import io

    from ruamel.yaml import YAML

    stream = io.StringIO()
    YAML(typ="safe", pure=True).dump({"disturbance": block}, stream)
    return stream.getvalue()
