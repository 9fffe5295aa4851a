"""Figures of staleness and memory."""

from __future__ import annotations

import plotly.graph_objects as go

from dpsim.base.units import DATA, human
from dpsim.engine import MemoryUse, Result
from dpsim.report.figures.style import COLOURS, Answer, answer, set_style
from dpsim.report.text.memory import PART_NAMES
from dpsim.report.theme import COLOUR, SERIES, ink_on

_GIGA = 1e9
_NARROW = 0.08  # of the memory held: narrower parts have no room for words
_HEIGHT = 420  # pixels: on a phone the legend has a line for each part, in at most half of them
_COLOURS = (*SERIES, COLOUR["grey"])


def staleness_figure(result: Result | Answer) -> go.Figure:
    """Draw how often gradients had which staleness.

    In versions applied meanwhile, and in iterations ahead of the slowest worker.
    """
    staleness = answer(result)["staleness"]
    figure = go.Figure()
    for number, (key, name) in enumerate(
        (("versions", "versions behind"), ("clock_gap", "iterations ahead of the slowest"))
    ):
        counts = staleness[key]["histogram"]
        total = sum(counts) or 1
        figure.add_bar(
            x=list(range(len(counts))),
            y=[count / total for count in counts],
            name=name,
            marker={"color": COLOURS[number], "pattern": {"shape": ("", "/")[number]}},
            hovertemplate="%{x}: %{y:.1%}",
        )
    dropped = f"; {staleness['dropped']:.1%} of gradients dropped" if staleness["dropped"] else ""
    versions = staleness["versions"]
    title = (
        f"Staleness: {versions['mean']:.3g} versions on average, at most {versions['max']}{dropped}"
    )
    return set_style(
        figure,
        title,
        "versions or iterations (count)",
        "share",
        barmode="group",
        yaxis={"tickformat": ".0%"},
    )


def footprint_figure(use: MemoryUse | Answer) -> go.Figure:
    """Draw the memory held by each GPU (GB), or its JSON object, against the capacity."""
    memory = use.to_json() if isinstance(use, MemoryUse) else use
    figure = go.Figure()
    total = memory["total_bytes"]
    for number, (part, size) in enumerate(memory["parts_bytes"].items()):
        if not size:
            continue
        colour = _COLOURS[number % len(_COLOURS)]
        # If there are more parts than colours, reuse the colours with hatching.
        hatched = number >= len(_COLOURS)
        label = f"{PART_NAMES[part]}: {human(size, DATA, 3)}"
        figure.add_bar(
            y=[memory["gpu"]],
            x=[size / _GIGA],
            name=label,
            orientation="h",
            width=0.45,
            marker={
                "color": colour,
                "pattern": {"shape": "/" if hatched else "", "fgopacity": 0.8},
            },
            # Text is unreadable on hatching; the legend has every size.
            text=[human(size, DATA, 3) if size >= _NARROW * total and not hatched else ""],
            textposition="inside",
            insidetextanchor="middle",
            textangle=0,
            textfont={"color": ink_on(colour)},
            hovertemplate=f"{label}, {size / total:.0%}<extra></extra>",
        )

    capacity = memory["capacity_bytes"] / _GIGA
    figure.add_vline(
        x=capacity,
        line={"dash": "dash", "width": 3},
        # The text is readable above the bar.
        annotation={"text": f"has {capacity:.3g} GB", "yanchor": "bottom", "xanchor": "center"},
    )
    verdicts = {None: "activations not known", True: "fits", False: "does not fit"}
    verdict = verdicts[memory["fits"]]
    title = f"Memory of a GPU: {total / _GIGA:.3g} of {capacity:.3g} GB, {verdict}"
    return set_style(figure, title, "memory (GB)", "", barmode="stack", height=_HEIGHT)
