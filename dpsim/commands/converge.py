"""``dpsim converge``: train a small model for real in a scenario's simulated time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from dpsim.base.terminal import show, show_json
from dpsim.commands.options import File, Json, Plot, Sets, check_plot, draw
from dpsim.commands.progress import bars

if TYPE_CHECKING:
    from dpsim.studies.replay import Replay


def converge(
    file: File,
    set_: Sets = None,
    gradients: Annotated[
        bool,
        typer.Option(
            "--gradients",
            help="List every gradient: the version it was computed on, the update that "
            "applied it, and when.",
        ),
    ] = False,
    plot: Plot = None,
    as_json: Json = False,
) -> None:
    """Train a small model for real in simulated time.

    Shows loss and accuracy against seconds, samples and bytes.

    Example: dpsim converge scenarios/quickstart.yaml --set replay.model=softmax
        --set strategy.sync.kind=local-sgd
    """
    from dpsim.scenario import load_scenario
    from dpsim.studies.replay import replay

    check_plot(plot)
    scenario = load_scenario(file, set_ or ())
    with bars() as progress:
        result = replay(scenario, progress)
    draw(plot, result)
    if as_json:
        answer = result.to_json()
        if gradients:  # one row for each of thousands, which few users want
            answer["fates"] = [each._asdict() for each in result.gradient_histories()]
        show_json(answer)
    else:
        _show(result, gradients)


def _show(result: Replay, with_gradients: bool) -> None:
    from dpsim.report.text.replay import gradients_table, replay_notes, replay_table

    if with_gradients:
        show(gradients_table(result.gradient_histories()), "")
    show(replay_table(result), "", *replay_notes(result))
