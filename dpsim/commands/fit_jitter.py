"""``dpsim fit-jitter``: the disturbance that measured step times show."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from dpsim.base.terminal import show, show_json, write_whole
from dpsim.commands.options import Json


def fit_jitter(
    file: Annotated[
        Path,
        typer.Argument(
            help="A CSV file of steps: step_ms or step_s, and rank and node if timed apart.",
            show_default=False,
        ),
    ],
    output: Annotated[
        Path | None, typer.Option("-o", "--output", help="Write the block to this file.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Fit jitter, delays, stalls and slow workers to step times of your own cluster.

    Prints a disturbance block for a scenario.

    Example: dpsim fit-jitter steps.csv -o disturbance.yaml
    """
    import numpy as np

    from dpsim.disturbance import fit_jitter as fitted
    from dpsim.disturbance import read_steps

    times, nodes = read_steps(file)
    found = fitted(times, nodes)
    told = {"steps": len(times), "ranks": times.shape[1], "median_s": float(np.median(times))}
    if as_json:
        named = {"schema_version": 1, "kind": "fit-jitter", **told}
        show_json({**named, "disturbance": found.block()})
        return
    text = block_text(found.block())
    if output is None:
        show(text)
    else:
        write_whole(output, text)


def block_text(block: object) -> str:
    """A ``disturbance`` block as text of a scenario."""
    import io

    from ruamel.yaml import YAML

    stream = io.StringIO()
    YAML(typ="safe", pure=True).dump({"disturbance": block}, stream)
    return stream.getvalue()
