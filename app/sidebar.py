"""The sidebar of every page about one scenario.

It shows the scenario, its editable values, and the upload of another.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from functools import partial

import streamlit as st
from streamlit.runtime.uploaded_file_manager import UploadedFile

from app import controls, entry, forms, state
from app.plain import plain
from app.presets import about, preset_names, searched, short
from app.reading import scenario, uploaded
from app.spec import MOST_BYTES, Spec
from app.waiting import scenario_of
from app.words import kind_words
from dpsim.base.errors import DpsimError

# A cluster of groups or a testbed does not have these.
_ONE_KIND_OF_NODE = ("nodes", "node", "gpu", "gpus_per_node")
UPLOAD = "A scenario of your own"
_SLOW = "[{workers: [0], factor: 2}]"


def draw() -> Spec:
    """Draw the sidebar, and return the scenario; end the page's run where it is invalid."""
    with st.sidebar:
        with suppress(DpsimError):  # reported by the page
            entry.draw(state.current().spec)
        _draw_source()
        try:
            if st.toggle("all knobs", key="all knobs", help="Every field of a scenario file."):
                _draw_knobs()
            else:
                _draw_few_knobs()
        except DpsimError:
            st.caption("The controls appear here when the scenario is valid.")
        _draw_upload()
    spec = state.current().spec
    scenario_of(spec)
    return spec


def _draw_source() -> None:
    spec = state.current().spec
    shown = spec.file if spec.text is not None else str(spec.preset)
    options = [*preset_names(), *([] if shown in preset_names() else [shown])]
    controls.draw(
        st.selectbox,
        "set-up",
        "source",
        shown,
        lambda name: state.show_spec(Spec(name)),
        options=options,
        format_func=lambda name: short(name) if name in preset_names() else name,
        help="Presets, and a scenario of your own.",
    )
    if st.button("all set-ups", icon=":material/apps:", width="stretch", key="all set-ups"):
        _set_ups()
    if shown in preset_names():
        _, text = about(shown)
        st.caption(text)
    if spec.changes:
        words = "1 change" if len(spec.changes) == 1 else f"{len(spec.changes)} changes"
        st.button(
            f"undo {words}",
            on_click=state.show_spec,
            args=(replace(spec, changes=()),),
            type="tertiary",
            icon=":material/undo:",
        )


@st.dialog("Set-ups", width="large")
def _set_ups() -> None:
    """List the presets that the search finds, one per line."""
    wanted = st.text_input(
        "search", key="search set-ups", placeholder="Llama, FSDP, V100, asynchronous ..."
    )
    found = searched(wanted)
    if not found:
        st.info("No set-up has all of these words.")
    for name in found:
        title, text = about(name)
        left, right = st.columns([2, 3], vertical_alignment="center")
        right.caption(text)
        with left:
            chosen = st.button(
                title,
                key=f"open {name}",
                type="tertiary",
                wrap=True,
                on_click=state.show_spec,
                args=(Spec(name),),
            )
            if chosen:  # reruns the whole page, which closes this dialog
                state.run_again()


def _draw_few_knobs() -> None:
    """Draw the six main knobs, without those that the scenario does not have."""
    spec = state.current().spec
    if controls.stated(spec, "cluster.node"):
        controls.fields("cluster", only=("nodes",))
    fabric = controls.schema_of("cluster.network")
    if fabric and controls.stated(spec, "testbed") is None:
        controls.fields("cluster.network", fabric, only=("nic",))
    controls.fields("workload", only=("batch_per_gpu",))
    for part in ("aggregation", "sync", "overlap"):
        controls.kind(f"strategy.{part}")


def _draw_knobs() -> None:
    """Draw every knob, part by part; a part is drawn when it is open.

    All lists, ranges and explanations come from the schema.
    """
    for name, draw_part in PARTS.items():
        opened = st.expander(
            name + _now(name), expanded=name == "Cluster", key=f"part {name}", on_change="rerun"
        )
        if opened.open:
            with opened:
                draw_part()


def _now(name: str) -> str:
    """Return the chosen kind in a part of the strategy."""
    part = name.lower()
    if part not in forms.part("strategy")["properties"]:
        return ""
    return f": {plain(kind_words(controls.kind_of(f'strategy.{part}')))}"


def _draw_cluster() -> None:
    spec = state.current().spec
    missing = () if controls.stated(spec, "cluster.node") else _ONE_KIND_OF_NODE
    controls.fields("cluster", without=missing)
    if controls.stated(spec, "testbed") is None:
        controls.union("cluster.network", without=("ecmp_seed", "graphml"))


def _draw_workload() -> None:
    controls.fields("workload")
    controls.union("workload.input")


def _draw_stragglers() -> None:
    # Without file names, since the dashboard reads no files.
    controls.union("disturbance.jitter", without=("file",))
    controls.entry(
        "disturbance.slow",
        "slow workers",
        _SLOW,
        "Workers that are slow in every step.",
    )
    controls.entry(
        "disturbance.transient", "temporary slow-downs", "[{}]", "Workers that are slow at times."
    )


def _draw_upload() -> None:
    with st.expander(UPLOAD, key=f"part {UPLOAD}", on_change="rerun") as opened:
        if not opened.open:
            return
        given = st.file_uploader(
            "upload a scenario (YAML)",
            type=["yaml", "yml"],
            key="upload",
            max_upload_size=1,
            on_change=_show_upload,
            help=(
                f"At most {MOST_BYTES:,} bytes. No code in it is run, no file that it names is "
                "read."
            ),
        )
        # Here, since a callback's output would be at the top of the page.
        try:
            _read(given)
        except DpsimError as error:
            st.error(plain(str(error)))


def _show_upload() -> None:
    """Show the uploaded scenario, if it is valid; otherwise keep the current one."""
    with suppress(DpsimError):  # reported below the upload
        if spec := _read(st.session_state["upload"]):
            state.show_spec(spec)


def _read(given: UploadedFile | None) -> Spec | None:
    """Return the scenario of an upload. Raises DpsimError, with the places, where it is invalid."""
    if given is None:
        return None
    spec = uploaded(given.name, given.getvalue())
    scenario(spec)
    return spec


PARTS: dict[str, Callable[[], None]] = {
    "Cluster": _draw_cluster,
    "Model and batch": _draw_workload,
    "Aggregation": partial(controls.union, "strategy.aggregation"),
    "Sync": partial(controls.union, "strategy.sync"),
    "Overlap": partial(controls.union, "strategy.overlap"),
    "Compression": partial(controls.union, "strategy.compression"),
    "Stragglers": _draw_stragglers,
    "Price and power": partial(controls.fields, "cost"),
    "Simulation": partial(controls.fields, "run"),
}
