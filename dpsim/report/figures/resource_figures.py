"""Figures of what training holds and how fresh it is: staleness and memory."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dpsim.engine import Result
from dpsim.report.figures.style import COLOURS, Answer, answer, styled
from dpsim.report.text.memory import PART_NAMES

if TYPE_CHECKING:
    import plotly.graph_objects as go

_GIGA = 1e9


def staleness_figure(result: Result | Answer) -> go.Figure:
    """How often gradients were how stale.

    In versions applied meanwhile, and in iterations ahead of the slowest worker.
    """
    import plotly.graph_objects as go

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
    return styled(
        figure,
        title,
        "versions or iterations (count)",
        "share",
        barmode="group",
        yaxis={"tickformat": ".0%"},
    )


def memory_figure(result: Result | Answer) -> go.Figure:
    """What each GPU's memory holds (GB), beside what it has.

    Raises KeyError for a result without memory.
    """
    import plotly.graph_objects as go

    memory: dict[str, Any] | None = answer(result)["memory"]
    if memory is None:
        raise KeyError("the result says nothing of memory")
    figure = go.Figure()
    for number, (part, size) in enumerate(memory["parts_bytes"].items()):
        if size > 0:
            figure.add_bar(
                y=[memory["gpu"]],
                x=[size / _GIGA],
                name=PART_NAMES[part],
                orientation="h",
                marker={"color": COLOURS[number % len(COLOURS)]},
                hovertemplate=f"{PART_NAMES[part]}: %{{x:.3g}} GB",
            )
    capacity = memory["capacity_bytes"] / _GIGA
    figure.add_vline(
        x=capacity,
        line={"dash": "dash"},
        annotation={"text": f"{capacity:.3g} GB"},
    )
    verdict = "fits" if memory["fits"] else "does not fit"
    title = f"Memory of a GPU: {memory['total_bytes'] / _GIGA:.3g} of {capacity:.3g} GB, {verdict}"
    return styled(figure, title, "memory (GB)", "", barmode="stack", height=260)
