"""Several ways to synchronise beside each other.

How long their steps are, and how stale their gradients.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from dpsim.engine import Result
from dpsim.report.figures.style import COLOURS, DASHES, styled

if TYPE_CHECKING:
    import plotly.graph_objects as go

_POINTS = 200
_MILLI = 1e3


def step_times_figure(results: Mapping[str, Result]) -> go.Figure:
    """Share of steps (of workers, in %) that took at most so long (ms, logarithmic).

    A curve for each of ``results``.
    """
    import plotly.graph_objects as go

    figure = go.Figure()
    for number, (name, result) in enumerate(results.items()):
        share = np.linspace(0, 100, _POINTS)
        figure.add_scatter(
            x=_MILLI * np.percentile(result.steps.step, share),
            y=share,
            name=f"{name} (mean {_MILLI * result.step_time_s['mean']:,.4g} ms)",
            line={
                "color": COLOURS[number % len(COLOURS)],
                "dash": DASHES[number % len(DASHES)],
                "width": 2,
                "shape": "hv",
            },
        )
    figure.update_xaxes(
        type="log",
        tickvals=[digit * 10.0**power for power in range(-3, 9) for digit in (1, 2, 5)],
        tickformat=",",
    )
    title = "Steps that took at most so long"
    return styled(figure, title, "step time (ms)", "steps (%)", hovermode="x unified")


def staleness_by_kind_figure(results: Mapping[str, Result]) -> go.Figure:
    """Share of gradients (%) by the updates between reading parameters and applying.

    Bars for each of ``results``.
    """
    import plotly.graph_objects as go

    figure = go.Figure()
    for number, (name, result) in enumerate(results.items()):
        versions = result.staleness["versions"]
        counts = np.array(versions["histogram"], dtype=float)
        figure.add_bar(
            x=np.arange(len(counts)),
            y=100 * counts / max(counts.sum(), 1),
            name=f"{name} (mean {versions['mean']:.3g}, most {versions['max']})",
            marker={"color": COLOURS[number % len(COLOURS)]},
        )
    figure.update_xaxes(rangemode="tozero")
    title = "Staleness: updates during a gradient"
    return styled(figure, title, "updates in between (count)", "gradients (%)", barmode="group")
