"""The sidebar of every page about one scenario.

It shows the scenario, its editable values, and the upload of another.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from functools import partial

import streamlit as st

from app import controls, entry, forms, state
from app.plain import plain
from app.presets import about, preset_names, searched, short
from app.reading import scenario, uploaded
from app.spec import MOST_BYTES, Spec
from app.waiting import scenario_of
from app.words import kind_words
from dpsim.base.errors import DpsimError

# A cluster of groups or a testbed does not have these.
_CLUSTER_ALONE = ("nodes", "node", "gpu", "gpus_per_node")
UPLOAD = "A scenario of your own"
_SLOW = "[{workers: [0], factor: 2}]"


def draw() -> Spec:
    """Draw the sidebar, and return the scenario; end the page's run where it is invalid."""
    with st.sidebar:
        with suppress(DpsimError):  # reported by the page
            entry.draw(state.current().spec)
        _source()
        try:
            if st.toggle("all knobs", key="all knobs", help="Every field of a scenario file."):
                _knobs()
            else:
                _few()
        except DpsimError:
            st.caption("What can be turned shows here when the scenario can be read.")
        _upload()
    spec = state.current().spec
    scenario_of(spec)
    return spec


def _source() -> None:
    spec = state.current().spec
    shown = spec.file if spec.text is not None else str(spec.preset)
    options = [*preset_names(), *([] if shown in preset_names() else [shown])]
    controls.draw(
        st.selectbox,
        "set-up",
        "source",
        shown,
        _source_chosen,
        options=options,
        format_func=_title,
        help="Well-known ones, or yours.",
    )
    if st.button("all set-ups", icon=":material/apps:", width="stretch", key="all set-ups"):
        _set_ups()
    if shown in preset_names():
        _, text = about(shown)
        st.caption(text)
    if spec.changes:
        words = "1 change" if len(spec.changes) == 1 else f"{len(spec.changes)} changes"
        st.button(f"undo {words}", on_click=_reset, type="tertiary", icon=":material/undo:")


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


def _title(name: str) -> str:
    return short(name) if name in preset_names() else name


def _source_chosen(name: str) -> None:
    if name in preset_names():
        state.show_spec(Spec(name))


def _reset() -> None:
    spec = state.current().spec
    state.show_spec(Spec(spec.preset, spec.text, spec.file))


def _few() -> None:
    """Draw the knobs that are turned most, as many of the six as the scenario has."""
    spec = state.current().spec
    network = forms.union("cluster.network")
    fabric = network.kinds.get(controls.kind_of(network), {"properties": {}})
    if controls.stated(spec, "cluster.node"):
        _field(forms.part("cluster"), "cluster.nodes", controls.doubled)
    if controls.stated(spec, "testbed") is None:
        _field(fabric, "cluster.network.nic")
    _field(forms.part("workload"), "workload.batch_per_gpu")
    for part in ("aggregation", "sync", "overlap"):
        controls.kind(forms.union(f"strategy.{part}"))


def _field(
    schema: forms.Schema, path: str, draw: Callable[[forms.Field], None] = controls.field
) -> None:
    """Draw the field at ``path`` of a mapping with that ``schema``, if it has it."""
    for each in forms.fields(schema, path.rpartition(".")[0]):
        if each.path == path:
            draw(each)


def _knobs() -> None:
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
    return f": {plain(kind_words(controls.kind_of(forms.union(f'strategy.{part}'))))}"


def _cluster() -> None:
    spec = state.current().spec
    alone = () if controls.stated(spec, "cluster.node") else _CLUSTER_ALONE
    for each in forms.fields(forms.part("cluster"), "cluster", without=alone):
        draw_field = controls.doubled if each.path == "cluster.nodes" else controls.field
        draw_field(each)
    if controls.stated(spec, "testbed") is None:
        controls.union(forms.union("cluster.network"), without=("ecmp_seed", "graphml"))


def _workload() -> None:
    _fields("workload")
    controls.union(forms.union("workload.input"))


def _stragglers() -> None:
    # Without file names, since the dashboard reads no files.
    controls.union(forms.union("disturbance.jitter"), without=("file",))
    controls.entry(
        "disturbance.slow",
        "slow workers",
        _SLOW,
        "Workers that are slow from the first step to the last.",
    )
    controls.entry(
        "disturbance.transient", "passing slow-downs", "[{}]", "Workers that are slow now and then."
    )


def _fields(path: str) -> None:
    for each in forms.fields(forms.part(path), path):
        controls.field(each)


def _strategy(part: str) -> None:
    controls.union(forms.union(f"strategy.{part}"))


def _upload() -> None:
    with st.expander(UPLOAD, key=f"part {UPLOAD}", on_change="rerun") as opened:
        if not opened.open:
            return
        given = st.file_uploader(
            "upload a scenario (YAML)",
            type=["yaml", "yml"],
            key="upload",
            max_upload_size=1,
            on_change=_uploaded,
            help=(
                f"At most {MOST_BYTES:,} bytes. No code in it is run, no file that it names is "
                "read."
            ),
        )
        problem = st.session_state.get("upload problem", "")
        if given is not None and problem:
            st.error(plain(problem))


def _uploaded() -> None:
    """Show the uploaded scenario, if it is valid.

    Otherwise keep the current one, and show the problems with their places.
    """
    given = st.session_state["upload"]
    st.session_state["upload problem"] = ""
    if given is None:
        return
    try:
        spec = uploaded(given.name, given.getvalue())
        scenario(spec)
        state.show_spec(spec)
    except DpsimError as error:
        # Kept for `_upload`: a callback's output would be at the top of the page.
        st.session_state["upload problem"] = str(error)


PARTS: dict[str, Callable[[], None]] = {
    "Cluster": _cluster,
    "Model and batch": _workload,
    "Aggregation": partial(_strategy, "aggregation"),
    "Sync": partial(_strategy, "sync"),
    "Overlap": partial(_strategy, "overlap"),
    "Compression": partial(_strategy, "compression"),
    "Stragglers": _stragglers,
    "Price and power": partial(_fields, "cost"),
    "Simulation": partial(_fields, "run"),
}
