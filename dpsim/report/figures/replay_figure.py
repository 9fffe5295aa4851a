"""Replayed trainings as curves: loss and accuracy against simulated seconds, samples and bytes."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import product

import plotly.graph_objects as go
from plotly.subplots import make_subplots

from dpsim.report.figures.style import Answer, line_of, set_style
from dpsim.report.theme import COLOUR
from dpsim.studies.replay import Replay

_ACROSS = {"time_s": "time (s)", "samples": "samples", "bytes": "sent (GB)"}
_UP = {"accuracy": "accuracy on test images", "loss": "loss on training images"}
_LOSSES = [digit * 10.0**power for power in range(-6, 4) for digit in (1, 2, 5)]
_UNITS = {"bytes": 1e-9}


def replay_figure(replays: Mapping[str, Replay | Answer]) -> go.Figure:
    """Draw accuracy and loss in two rows of three panels, a line for each of ``replays``.

    ``replays`` has replays, or the output of ``dpsim converge --json``, by name; the target is a
    dashed line.
    """
    answers = {
        name: each.to_json() if isinstance(each, Replay) else each for name, each in replays.items()
    }

    figure = make_subplots(
        rows=2,
        cols=3,
        shared_xaxes="columns",
        shared_yaxes="rows",
        vertical_spacing=0.06,
        horizontal_spacing=0.03,
    )

    for number, (name, replay) in enumerate(answers.items()):
        for (row, up), (column, across) in product(enumerate(_UP, 1), enumerate(_ACROSS, 1)):
            # A line is in all six panels, but has one legend entry, which hides it in all of them.
            figure.add_scatter(
                x=[point[across] * _UNITS.get(across, 1) for point in replay["curve"]],
                y=[point[up] for point in replay["curve"]],
                name=name,
                legendgroup=name,
                showlegend=row == column == 1,
                line=line_of(number, width=2),
                row=row,
                col=column,
            )
    for target in {each["target_accuracy"] for each in answers.values()}:
        figure.add_hline(target, row=1, line={"width": 1, "color": COLOUR["grey"]})
        figure.add_annotation(
            text=f"target {target:.0%}",
            font={"size": 11},
            x=1,
            xref="x domain",
            xanchor="right",
            y=target,
            yanchor="top",
            showarrow=False,
            row=1,
            col=1,
        )
    set_style(figure, _title(answers), "", "", hovermode="x unified")
    for column, text in enumerate(_ACROSS.values(), 1):
        figure.update_xaxes(
            title_text=text, rangemode="tozero", nticks=3, tickangle=0, row=2, col=column
        )
    for row, text in enumerate(_UP.values(), 1):
        figure.update_yaxes(title_text=text, row=row, col=1)
    figure.update_yaxes(tickformat=".0%", row=1)
    figure.update_yaxes(
        type="log", tickvals=_LOSSES, ticktext=[f"{value:g}" for value in _LOSSES], row=2
    )
    return figure


def _title(answers: Mapping[str, Answer]) -> str:
    """Return the title, with the model and its training."""
    first = next(iter(answers.values()))
    config = first["replay"]
    learns = (
        f"{config['model']}, batch {config['batch']}, learning rate {config['learning_rate']:g}, "
        f"momentum {config['momentum']:g}"
    )
    title = f"{first['workers']} workers; {learns}; seed {first['seed']}"
    return f"Training in simulated time<br><sub>{title}</sub>"
