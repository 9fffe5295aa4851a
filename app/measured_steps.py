"""A user's measured steps on a scenario's page: measured against predicted, and a calibration."""

from __future__ import annotations

from typing import Any

import streamlit as st

from app import state
from app.charts import chart, columns, download, table
from app.plain import plain
from app.spec import Spec
from app.uploads import MOST_ROWS, calibrate_to_upload
from app.waiting import run_in_background, scenario_of
from dpsim.report.figures.calibration_figure import calibration_figure
from dpsim.report.text.calibration import runs_table

_HELP = (
    "A table (CSV) as dpsim calibrate takes it, a row for each run: columns are fields of the "
    "scenario such as cluster.nodes, cluster.gpus_per_node and workload.batch_per_gpu, or "
    "placement, and step_time_ms; also exposed_ms and held_out. At most "
    f"{MOST_ROWS} rows. No code in it is run, and no file that it names is read."
)


def draw(spec: Spec) -> None:
    """Draw the upload, and for an uploaded file its results, with a button to use them."""
    opened = st.expander("Your measured steps", key="measured steps", on_change="rerun")
    if not opened.open:
        return
    with opened:
        _draw_calibration_in_use(spec)
        given = st.file_uploader(
            "a table of measured steps (CSV)",
            type=["csv"],
            key="steps",
            max_upload_size=1,
            help=_HELP,
        )
        if given is None:
            return
        name, data = given.name, given.getvalue()
        found = run_in_background("fitting to your steps", calibrate_to_upload, name, data, spec)
        if found is not None:
            _draw_fit(*found)


def _draw_calibration_in_use(spec: Spec) -> None:
    """Show that answers use a calibration, and offer to remove it."""
    profile = scenario_of(spec).profile
    if profile is None or profile.step is None:
        return
    runs = "1 measured run" if len(profile.known) == 1 else f"{len(profile.known)} measured runs"
    with st.container(horizontal=True, vertical_alignment="center"):
        st.markdown(f"All predictions here use a calibration to {runs}.")
        st.button(
            "stop using it",
            on_click=state.show_spec,
            args=(spec.without("calibration"),),
            icon=":material/undo:",
        )


def _draw_fit(answer: dict[str, Any], profile: str) -> None:
    st.markdown(f"**{_verdict(answer['left_out'], answer['held_out'])}**")
    for warning in answer["warnings"]:
        st.warning(plain(warning))
    with st.container(horizontal=True):
        st.button(
            "predict by this calibration",
            on_click=state.change,
            args=("calibration", profile),
            icon=":material/play_arrow:",
        )
        download("download it (profile.json)", profile, "profile.json", "application/json")
    chart(calibration_figure(answer), "measured and predicted", height=420)
    held_out = answer["held_out"]["rows"]
    rows = [*answer["rows"], *held_out]
    used = ["fitted to"] * len(answer["rows"]) + ["held out"] * len(held_out)
    table({**columns(runs_table("", rows)), "used": used})


def _verdict(left_out: dict[str, float | None], held_out: dict[str, float | None]) -> str:
    """Return the error on runs that were not fitted."""
    notes = [
        f"{errors['median_ape']:.1%} over {errors['n']} {runs}"
        for runs, errors in (("held-out runs", held_out), ("runs left out in turn", left_out))
        if errors["median_ape"] is not None
    ]
    if not notes:
        return "There are too few runs to estimate its error."
    return f"Median error {', '.join(notes)}."
