"""Topology.

The cluster as a graph, with links coloured by their load in a step, and the busiest of them.
"""

from __future__ import annotations

from functools import partial

import streamlit as st

from app import does_not_fit, sidebar, state
from app.answers import loaded_links
from app.charts import chart
from app.headline import sentence
from app.waiting import finished, scenario_of
from dpsim.base.units import DATA, RATE, human
from dpsim.engine import LinkClass, busiest_links, link_classes
from dpsim.report.figures.load_map_figure import load_map_figure
from dpsim.report.figures.topology_figure import topology_figure
from dpsim.report.figures.topology_layout import TITLES

_LISTED = 15
_HEIGHT = 620  # pixels


def draw() -> None:
    """Draw the page."""
    sidebar.draw()
    spec = state.current().spec
    scenario_of(spec)
    if does_not_fit.drawn(spec):
        return
    found = finished("loading the links", ("links", spec), partial(loaded_links, spec))
    if found is None:
        return

    job, loads = found
    links = busiest_links(job.network, loads, _LISTED)
    classes = link_classes(job.network, loads)
    # Classes are sorted, the busiest first.
    if links:
        sentence(_verdict(classes[0]))
    chart(load_map_figure(classes), key="classes")
    chart(topology_figure(job.network, loads), key="topology", height=_HEIGHT)

    if not links:
        st.info("No link carries anything: there is one worker.")
        return
    st.markdown(f"**The {len(links)} links that are busiest**")
    st.dataframe(
        {
            "link": [link["link"] for link in links],
            "rate": [human(link["rate_Bps"], RATE) for link in links],
            "carried in a step": [human(link["bytes"], DATA, 4) for link in links],
            "share of its rate over the step": [f"{link['utilisation']:.1%}" for link in links],
        },
        hide_index=True,
        height="content",
    )


def _verdict(busiest: LinkClass) -> str:
    one, other = (TITLES.get(end, end) for end in busiest.ends)
    said = f"The busiest links, {one} to {other}, carry {busiest.share:.0%} of their rate"
    return f"{said} over the step."
