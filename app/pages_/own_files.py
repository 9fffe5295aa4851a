"""A user's own files: models, traces, logs and topologies, and the scenario with them."""

from __future__ import annotations

from functools import partial
from hashlib import sha256

import streamlit as st

from app import controls, sidebar, state
from app.headline import sentence
from app.own_files import KINDS, Outcome, outcome
from app.plain import plain
from app.waiting import finished, scenario_of
from dpsim.base.units import TIME, human
from dpsim.engine import Result
from dpsim.report.text.tables import amount

_MOST_MB = 5


def draw() -> None:
    """Draw the page."""
    sidebar.draw()
    st.subheader("Your own files", anchor=False)
    st.caption(
        "Read in this browser's session, within limits. Nothing in them is run, and they are gone "
        "with the page; the scenario in the address stays as it is."
    )
    kind = controls.pick("what it is", list(KINDS), "kind", next(iter(KINDS)))
    st.caption(KINDS[kind].gain)
    given = st.file_uploader("the file", key=f"own file {kind}", max_upload_size=_MOST_MB)
    if given is None:
        return
    spec, name, data = state.current().spec, given.name, given.getvalue()
    scenario_of(spec)
    found = finished(
        "reading it",
        # By content: two files may share a name, and the key does not keep the bytes.
        ("own file", kind, name, sha256(data).hexdigest(), spec),
        partial(outcome, kind, name, data, spec),
    )
    if found is not None:
        _shown(found)


def _shown(found: Outcome) -> None:
    first, *others = found.found.lines
    # A log of collectives changes nothing: its contents are the verdict.
    if found.without is None or found.with_it is None:
        sentence(f"{first}.")
    else:
        sentence(_verdict(found.without, found.with_it))
        others = [first, *others]
    for line in others:
        st.markdown(f"- {plain(line)}")
    if found.found.text:
        st.download_button(
            f"download what dpsim makes of it ({found.found.name})",
            found.found.text,
            found.found.name,
            on_click="ignore",
            icon=":material/download:",
        )
    if found.found.node is not None:
        st.button(
            "use this node in the scenario",
            on_click=state.change,
            args=("cluster.node", found.found.node),
            icon=":material/play_arrow:",
        )
    if found.without is not None and found.with_it is not None:
        _side_by_side(found.without, found.with_it)


def _side_by_side(without: Result, with_it: Result) -> None:
    st.markdown("**The scenario without it, and with it**")
    runs = {"as it is": without, "with the file": with_it}
    rows = [_row(result) for result in runs.values()]
    st.dataframe(
        {"": list(runs), **{head: [row[head] for row in rows] for head in rows[0]}},
        hide_index=True,
        height="content",
    )


def _verdict(without: Result, with_it: Result) -> str:
    """Return the step time with the file, compared with the step without it."""
    before, after = without.step_time_s["mean"], with_it.step_time_s["mean"]
    took = f"A step takes {human(after, TIME, 4)} with the file"
    return f"{took}, {human(before, TIME, 4)} without it ({after / before - 1:+.1%})."


def _row(result: Result) -> dict[str, str]:
    return {
        "GPUs": f"{result.workers:,}",
        "step": human(result.step_time_s["mean"], TIME, 4),
        "computing": human(result.parts_s["compute"], TIME, 4),
        "communication not hidden": human(result.parts_s["exposed_comm"], TIME, 3),
        "samples/s": amount(result.throughput_samples_per_s),
    }
