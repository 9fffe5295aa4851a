"""Topology.

The cluster as a graph, with links coloured by their load in a step, and each kind of link.
"""

from __future__ import annotations

import streamlit as st

from app import does_not_fit, sidebar
from app.charts import chart, table
from app.headline import sentence
from app.waiting import result_of
from dpsim.base.units import RATE, human
from dpsim.engine import LinkClass
from dpsim.report.figures.topology_figure import topology_figure
from dpsim.report.figures.topology_layout import TITLES

_HEIGHT = 620  # pixels


def draw() -> None:
    """Draw the page."""
    spec = sidebar.draw()
    if does_not_fit.draw(spec):
        return
    shown = result_of(spec)
    classes = [each for each in shown.links if each.share]  # the busiest first
    if classes:
        share = f"{classes[0].share:.0%} of their rate over the step"
        sentence(f"The busiest links, {_kind(classes[0])}, carry {share}.")
    result = shown.result
    figure = topology_figure(result.job.network, result.traffic.links)
    chart(figure, key="topology", height=_HEIGHT)
    if not classes:
        st.info("No link carries anything: there is one worker.")
        return
    table(
        {
            "links": [_kind(each) for each in classes],
            "number": [f"{each.links:,}" for each in classes],
            "rate": [human(each.rate, RATE) for each in classes],
            "share of its rate, mean": [f"{each.mean:.1%}" for each in classes],
            "busiest": [f"{each.share:.1%}" for each in classes],
            "which": [each.busiest for each in classes],
        }
    )


def _kind(links: LinkClass) -> str:
    return " to ".join(TITLES.get(end, end) for end in links.ends)
