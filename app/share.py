"""The menu that gives the page to others: as a link, a command, a file or a picture."""

from __future__ import annotations

from dataclasses import asdict
from functools import cache
from importlib.resources import files
from typing import Any

import streamlit as st

from app import state
from app.charts import download, mode
from app.headline import numbers
from app.reading import to_command, to_yaml
from app.titles import file_stem
from app.waiting import answer_if_ready
from dpsim.engine import PARTS, Result
from dpsim.report.figures.style import PART_COLOURS
from dpsim.report.theme import COLOUR, FONT, SURFACES

MENU = "Share"


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
        # Wrapped, since the keyboard cannot reach scrolling content.
        with st.container(key="link"):
            st.code(link, language=None, wrap_lines=True)
        st.caption("A command, which prints the same numbers")
        st.code(to_command(spec, name), language=None, wrap_lines=True)
        download("download it (YAML)", to_yaml(spec, name), f"{name}.yaml", "application/yaml")
        if shown := answer_if_ready(spec):
            _card()(key="card", data=_drawn(shown.result, title, f"{name}.png"))


def _drawn(result: Result, title: str, file: str) -> dict[str, Any]:
    """Return the data that the picture shows."""
    every = list(numbers(result))
    step, interval = every[0], every[0].interval
    parts = {key: seconds for key, seconds in result.parts_s.items() if seconds}
    return {
        "title": title,
        "file": file,
        "numbers": [[number.name, number.text] for number in every],
        "within": interval and f"{interval.confidence:.0%} interval of a step: {step.within}",
        "band": interval and [interval.low, step.value, interval.high],
        "parts": [[PARTS[key].title, parts[key], PART_COLOURS[key]] for key in parts],
        "font": FONT,
        "colours": {"blue": COLOUR["blue"], **asdict(SURFACES[mode()])},
    }


@cache
def _card() -> Any:
    """Return the browser's drawing of the picture."""
    return st.components.v2.component(
        "dpsim_card",
        html='<canvas role="img" width="1200" height="630" style="width: 100%"></canvas>'
        '<a style="color: inherit">download the picture (PNG)</a>',
        js=files(__package__).joinpath("card.js").read_text(encoding="utf-8"),
    )
