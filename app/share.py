"""The menu that gives the page to others: as a link, a command, a file or a picture."""

from __future__ import annotations

import streamlit as st

from app import state
from app.charts import shown
from app.headline import numbers
from app.reading import to_command, to_yaml
from app.titles import file_stem
from app.waiting import at_once
from dpsim.engine import Result
from dpsim.report.figures.step_figures import breakdown_figure

MENU = "Share"
_HEIGHT = 420  # pixels


def draw(title: str) -> None:
    """Draw the menu of the scenario shown, whose title is ``title``. Raises DpsimError."""
    with st.popover(MENU, key=f"part {MENU}", icon=":material/share:", on_change="rerun") as opened:
        if not opened.open:
            return
        spec, address = state.current().spec, state.current().address()
        name = file_stem(spec)
        st.caption("A link, which opens where dpsim app runs")
        url = f"{st.context.url or ''}?{address}"
        link = "The scenario is too long for a link." if address is None else url
        # Wrapped, since the keyboard cannot reach what scrolls.
        with st.container(key="link"):
            st.code(link, language=None, wrap_lines=True)
        st.caption("A command, which prints the same numbers")
        st.code(to_command(spec, name), language=None, wrap_lines=True)
        # A download changes nothing on the page, so no rerun is needed.
        st.download_button(
            "download it (YAML)",
            to_yaml(spec, name),
            f"{name}.yaml",
            "application/yaml",
            on_click="ignore",
            icon=":material/download:",
        )
        if answer := at_once(spec):
            st.caption("A picture: the camera on it downloads the picture (PNG)")
            _picture(answer.result, title, name)


def _picture(result: Result, title: str, stem: str) -> None:
    """Draw the parts of a step below the title and the numbers, as they are downloaded."""
    step, *others = numbers(result)
    within = f" ({step.interval.confidence:.0%}: {step.within})" if step.interval else ""
    lines = (f"{step.name} {step.text}{within}", *(f"{each.name} {each.text}" for each in others))
    figure = breakdown_figure([result], [""])
    figure.update_layout(
        title={"text": title, "subtitle": {"text": "<br>".join(lines)}},
        height=_HEIGHT,
        font_family="sans-serif",  # a downloaded picture does not have the page's own font
    )
    st.plotly_chart(
        shown(figure),
        key="picture",
        theme=None,
        alt=f"{title}: {', '.join(lines)}",
        config={
            "displayModeBar": True,
            "displaylogo": False,
            "modeBarButtons": [["toImage"]],
            "toImageButtonOptions": {
                "filename": stem,
                "width": 800,
                "height": _HEIGHT,
                "scale": 1.5,
            },
        },
    )
