"""Compare: values of any knob side by side, and algorithms over message sizes.

Also the folders of sweeps.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import streamlit as st

from app import controls, forms, sidebar, state, sweeps
from app.answers import collectives, counted_nodes, few_steps
from app.charts import chart, columns, table
from app.entry import with_gpus, with_model
from app.headline import by_rate, fastest, sentence
from app.reading import with_fitted_times
from app.spec import Spec
from app.titles import model_words
from app.waiting import run_in_background, scenario_of, simulated, why_not
from app.words import choice_words, device_words, kind_words, nodes_words, path_words
from dpsim.base.errors import DpsimError
from dpsim.base.units import DATA, human
from dpsim.collectives import ALL_REDUCES
from dpsim.engine import Result
from dpsim.hardware import gpus, links
from dpsim.report.figures.scaling_figures import algorithms_figure, scaling_figure
from dpsim.report.figures.step_figures import breakdown_figure
from dpsim.report.text.comparison import compare_table

_VALUES, _SIZES = "values of a knob", "algorithm against message size"
_HEIGHT = 560  # pixels
_MOST_GPUS = 4_096
_SIZES_B = tuple(4**power for power in range(5, 16))  # 1 KiB to 1 GiB
_QUICK = ("ring", "halving-doubling", "tree", "double-binary-tree", "hierarchical", "butterfly")
_ALGORITHM = "strategy.aggregation.algorithm"
_CARD, _GPU, _NODES = "cluster.network.nic", "cluster.gpu", "cluster.nodes"
_BATCH, _BUCKET = "workload.batch_per_gpu", "strategy.overlap.bucket_size"
_MODEL = "workload.model"
# What is varied most, by its path; every other value of the scenario follows.
_NAMES = {
    _ALGORITHM: "all-reduce algorithm",
    _CARD: "network card",
    _GPU: "GPU",
    _BATCH: "batch per GPU",
    _BUCKET: "bucket size",
    _NODES: "nodes",
    "strategy.aggregation.kind": "aggregation",
    "strategy.sync.kind": "synchronisation",
    "strategy.overlap.kind": "overlap",
    "strategy.compression.kind": "compression",
    _MODEL: "model",
}
_CARDS = ("ethernet-10g", "ethernet-25g", "ethernet-100g", "ib-hdr", "ib-ndr")
_GPUS = ("a100-sxm-80gb", "h100-sxm", "b200")
_BUCKETS = ["1 MB", "2 MB", "5 MB", "10 MB", "25 MB", "50 MB", "100 MB"]
# Values that do not depend on the scenario, and those compared at first.
_FIXED = {_ALGORITHM: (list(ALL_REDUCES), _QUICK), _BUCKET: (_BUCKETS, _BUCKETS)}
_WORDS = {_CARD: device_words, _GPU: device_words, _NODES: nodes_words, _MODEL: model_words}
_PARTS = ("cluster", "workload", "cost", "run")  # parts of the scenario whose fields are knobs
_KINDS = (
    "cluster.network",
    *(f"strategy.{part}" for part in ("aggregation", "sync", "overlap", "compression")),
    "workload.input",
    "disturbance.jitter",
)
_ENTRIES = ("disturbance.slow[0]", "disturbance.transient[0]")
_BETWEEN_NODES = ("efa", "ethernet", "ib", "roce", "slingshot", "tcpx")


def draw() -> None:
    """Draw the page."""
    spec = sidebar.draw()
    views: dict[str, Callable[[Spec], None]] = {
        _VALUES: _compare_values,
        _SIZES: _draw_algorithms,
        "a sweep": lambda _: sweeps.draw(),
    }
    views[controls.switch("what to compare", tuple(views), "compare", _VALUES)](spec)


def _compare_values(spec: Spec) -> None:
    known = _knobs()
    paths = [path for path in (*_NAMES, *known) if path != _NODES or counted_nodes(spec)]
    path = controls.pick("vary", list(dict.fromkeys(paths)), "vary", _ALGORITHM, words=_words)
    spec = with_fitted_times(spec)
    # Only the all-reduce has an algorithm.
    if path == _ALGORITHM and controls.stated(spec, "strategy.aggregation.kind") not in (
        None,
        "allreduce",
    ):
        spec = spec.without("strategy.aggregation").with_value(
            "strategy.aggregation.kind", "allreduce"
        )
        st.caption("The scenario has no all-reduce: here one replaces its aggregation.")
    options, usual = _values(path, spec, known.get(path))
    values = controls.pick_several(
        "among", options, f"among-{path}", usual, words=_WORDS.get(path, choice_words)
    )
    specs = {value: _with(spec, path, value) for value in values}
    found = simulated(specs)
    if found is not None:
        _draw_side_by_side(path, found)
        _draw_use_buttons(specs, _WORDS.get(path, kind_words))
        why_not(found, _WORDS.get(path, kind_words))


def _words(path: str) -> str:
    return _NAMES.get(path) or path_words(path, with_part=True)


def _values(path: str, spec: Spec, knob: forms.Field | None) -> tuple[list[str], Sequence[str]]:
    """Return the values of a knob, among them the scenario's, and the ones compared at first.

    ``knob``: the field at ``path``, None for the kind of a part.
    """
    if path in _FIXED:
        return _FIXED[path]
    given = scenario_of(spec)
    if path == _NODES:
        each = given.cluster.ranks // given.cluster.nodes
        doubled = [str(2**power) for power in range(13) if 2**power * each <= _MOST_GPUS]
        return doubled, doubled
    if path == _BATCH:
        batch = given.workload.batch_per_gpu
        near = [batch * factor // 4 for factor in (1, 2, 4, 8, 16) if batch * factor >= 4]
        return [str(each) for each in near], [str(each) for each in near[:-1]]
    first = given.cluster.parts[0]
    if path == _GPU:
        return list(gpus()), tuple(dict.fromkeys((first.accelerator.name, *_GPUS)))
    if path == _CARD:
        card = given.cluster.nic_link(first).name
        cards = [name for name in links() if name.startswith(_BETWEEN_NODES)]
        return list(dict.fromkeys((*cards, card))), tuple(dict.fromkeys((card, *_CARDS)))
    return _kinds(path) if knob is None else _around(knob, spec)


def _knobs() -> dict[str, forms.Field | None]:
    """Return the values of the scenario's parts by their paths; None for the kind of a part."""
    schemas = {path: forms.part(path) for path in _PARTS}
    schemas |= {path: given for path in _KINDS if (given := controls.schema_of(path))}
    spec = state.current().spec
    schemas |= {path: forms.part(path[:-3]) for path in _ENTRIES if controls.stated(spec, path)}
    kinds = dict.fromkeys(f"{path}.{forms.union(path).key}" for path in _KINDS)
    return kinds | {
        each.path: each for path, given in schemas.items() for each in forms.fields(given, path)
    }


def _kinds(path: str) -> tuple[list[str], Sequence[str]]:
    """Return the kinds of the part whose kind is at ``path``, all compared at first."""
    kinds = list(forms.union(path.rpartition(".")[0]).kinds)
    return kinds, kinds


def _around(knob: forms.Field, spec: Spec) -> tuple[list[str], Sequence[str]]:
    """Return values of a knob to compare: its choices, or values that the user writes."""
    value = controls.stated(spec, knob.path)
    value = knob.default if value is None else value
    if knob.type == "boolean":
        return ["false", "true"], ["false", "true"]
    if knob.choices:
        # The scenario's choice, and those that follow it in the list.
        first = knob.choices.index(value) if value in knob.choices else 0
        return list(knob.choices), (*knob.choices[first:], *knob.choices[:first])[:6]
    usual = ", ".join(
        dict.fromkeys(forms.shown(each) for each in forms.around(1 if value is None else value))
    )
    given = controls.write("values, between commas", f"values-{knob.path}", usual, knob.help)
    values = list(dict.fromkeys(filter(None, map(str.strip, given.split(",")))))
    return values, values


def _with(spec: Spec, path: str, value: str) -> Spec:
    if path == _GPU:
        return with_gpus(spec, value, scenario_of(spec).cluster.ranks)
    if path == _MODEL:
        return with_model(spec, value)
    if path == _BUCKET:
        spec = spec.without("strategy.overlap").with_value("strategy.overlap.kind", "buckets")
    if path == _NODES:
        spec = few_steps(spec)
    return spec.with_value(path, value)


def _draw_use_buttons(specs: Mapping[str, Spec], called: Callable[[str], str]) -> None:
    """Draw a button for each compared value, which makes it the shown scenario."""
    with st.container(horizontal=True, gap="small"):
        for value, spec in specs.items():
            st.button(
                f"use {called(value)}", key=f"use {value}", on_click=state.show_spec, args=(spec,)
            )


def _draw_side_by_side(path: str, found: Mapping[str, Result | DpsimError]) -> None:
    """Draw the results, the fastest first, or along the number of nodes.

    The table is that of `dpsim compare`, with the data that the busiest worker sends.
    """
    called = _WORDS.get(path, kind_words)
    known = {called(name): each for name, each in found.items() if isinstance(each, Result)}
    if not known:
        return
    if path == _NODES:
        chart(scaling_figure(list(known.values())), key="scaling")
    else:
        known = by_rate(known)
        sentence(f"{fastest(known)}.")
        chart(breakdown_figure(list(known.values()), list(known)), key="side by side")
    rows = compare_table([({"": name}, result) for name, result in known.items()])
    sent = [human(result.traffic.sent_by_busiest, DATA, 4) for result in known.values()]
    table({**columns(rows), "sent by the busiest": sent})


def _draw_algorithms(spec: Spec) -> None:
    algorithms = controls.pick_several(
        "algorithms", [name for name in ALL_REDUCES if name != "auto"], "algorithms", _QUICK
    )
    found = run_in_background("timing collectives", collectives, spec, tuple(algorithms), _SIZES_B)
    if found:
        chart(algorithms_figure(found), key="sizes", height=_HEIGHT)
    if found is not None:
        missing = sorted(set(algorithms) - {row.algorithm for row in found})
        if missing:
            st.caption(f"Not on this cluster: {', '.join(missing)}.")
