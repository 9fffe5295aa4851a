"""Topology.

The cluster as a graph, with links coloured by their load in a step, and each kind of link.
"""

from __future__ import annotations

import streamlit as st

from app import does_not_fit, sidebar
from app.answers import loaded_links
from app.charts import chart, table
from app.headline import sentence
from app.waiting import finished
from dpsim.base.units import RATE, human
from dpsim.engine import LinkClass, link_classes
from dpsim.report.figures.topology_figure import topology_figure
from dpsim.report.figures.topology_layout import TITLES

_HEIGHT = 620  # pixels


def draw() -> None:
    """Draw the page."""
    spec = sidebar.draw()
    if does_not_fit.drawn(spec):
        return
    found = finished("loading the links", loaded_links, spec)
    if found is None:
        return

    job, loads = found
    # Sorted, the busiest first.
    classes = [each for each in link_classes(job.network, loads) if each.share]
    if classes:
        said = f"The busiest links, {_kind(classes[0])}, carry {classes[0].share:.0%} of their rate"
        sentence(f"{said} over the step.")
    chart(topology_figure(job.network, loads), key="topology", height=_HEIGHT)
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
