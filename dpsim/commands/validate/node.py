"""``dpsim validate node``: measure a profile of this node, for use in scenarios."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dpsim.base.terminal import save, show, show_answer
from dpsim.commands.options import Json
from dpsim.commands.progress import bars
from dpsim.commands.validate.options import Backend, Device, torch_first

if TYPE_CHECKING:
    from rich.table import Table

    from dpsim.hardware import CalibrationProfile

_NOT = "not measured"

Output = Annotated[
    Path,
    typer.Option(
        "-o",
        "--output",
        help="Write the profile to this file; its rows go beside it, to NAME.rows.jsonl.",
    ),
]
Ranks = Annotated[
    int | None,
    typer.Option(
        min=1,
        max=64,
        help="Ranks to start; if left out, one per GPU, or 4 on a CPU.",
        show_default=False,
    ),
]
Minutes = Annotated[
    float,
    typer.Option(min=0.1, help="Time for this call; another call continues."),
]
Models = Annotated[
    str,
    typer.Option(
        metavar="NAME,...",
        help="Models whose layers to measure: catalogue names, small-cnn or small-transformer.",
    ),
]


def node(
    output: Output,
    device: Device = "auto",
    backend: Backend = "auto",
    ranks: Ranks = None,
    minutes: Minutes = 10.0,
    models: Models = "",
    as_json: Json = False,
) -> None:
    """Measure this node and write one profile of it: computing, copies and network.

    It measures matrix products, memory, layers of models, the optimiser, codecs, copies, the
    library's collectives, the spread of compute times when all ranks run, the time that torch's
    wrappers add to a step, and the slow-down by a concurrent all-reduce. A scenario uses it by
    calibration: PROFILE.json. A third of the collectives' sizes and of the batch sizes is held out,
    and gives the profile's error. Every row is written at once: a failure loses no other row, and a
    second call measures the rest. Under torchrun its ranks measure. Run dpsim validate doctor
    first.

    Example: dpsim validate node -o profile.json
    Example: dpsim validate node --device cpu --ranks 2 --minutes 2 -o profile.json
    Example: torchrun --nnodes 2 --nproc-per-node 8 -m validate node --device cuda -o profile.json
    """
    torch_first("node")
    from validate.node import node_profile

    chosen = [each.strip() for each in models.split(",") if each.strip()]
    with bars() as progress:
        profile = node_profile(
            output.with_suffix(".rows.jsonl"),
            device=device,
            backend=backend,
            ranks=ranks,
            minutes=minutes,
            models=chosen,
            progress=progress,
        )
    # Under a launcher only rank 0 has the profile.
    if profile is None:
        return
    save(output, profile.to_json())
    if as_json:
        content = profile.model_dump(mode="json")
        show_answer("validate-node", profile=content)
    else:
        show(_errors(profile), "", *_summary(profile))


def _errors(profile: CalibrationProfile) -> Table:
    from dpsim.report.text.errors import errors_table

    errors = {name: vars(each) for name, each in profile.residuals_by.items()}
    title = f"{profile.name} ({profile.gpu}): errors on held-out rows"
    return errors_table(title, "what", errors)


def _summary(profile: CalibrationProfile) -> list[str]:
    reached = ", ".join(f"{name} {each.value:.3g}" for name, each in profile.constants.items())
    models = ", ".join(f"{model.model} in {model.precision}" for model in profile.compute)
    tables = ", ".join(f"{table.operation} on {table.ranks}" for table in profile.network)
    spreads = ", ".join(f"{each.ranks} ranks x {each.pace:.3g}" for each in profile.spreads)
    return [
        f"constants   {reached or _NOT}",
        f"models      {models or _NOT}",
        f"at once     {spreads or _NOT}",
        f"network     {tables or _NOT}",
    ]
