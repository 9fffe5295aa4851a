"""Compare: strategies side by side, and algorithms over message sizes.

Also the folders of sweeps.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import streamlit as st

from app import controls, forms, sidebar, state, sweeps
from app.answers import collectives, counted_nodes, few_steps
from app.charts import chart, columns, table
from app.entry import with_gpus
from app.headline import by_rate, fastest, sentence
from app.reading import with_fitted_times
from app.spec import Spec
from app.waiting import finished, scenario_of, simulated, why_not
from app.words import choice_words, device_words, kind_words, nodes_words
from dpsim.base.errors import DpsimError
from dpsim.base.units import DATA, human
from dpsim.collectives import ALL_REDUCES
from dpsim.engine import Result
from dpsim.hardware import gpus, links
from dpsim.report.figures.scaling_figures import algorithms_figure, scaling_figure
from dpsim.report.figures.step_figures import breakdown_figure
from dpsim.report.text.comparison import compare_table

_STRATEGIES, _SIZES = "strategies", "algorithm against message size"
_HEIGHT = 560  # pixels
_MOST_GPUS = 4_096
_SIZES_B = tuple(4**power for power in range(5, 16))  # 1 KiB to 1 GiB
_QUICK = ("ring", "halving-doubling", "tree", "double-binary-tree", "hierarchical", "butterfly")
_PARTS = {
    "aggregation": "strategy.aggregation",
    "synchronisation": "strategy.sync",
    "overlap": "strategy.overlap",
    "compression": "strategy.compression",
}
_ALGORITHM = "all-reduce algorithm"
_CARD, _GPU, _BATCH, _BUCKET = "network card", "GPU", "batch per GPU", "bucket size"
_NODES = "nodes"
_PATHS = {
    _ALGORITHM: "strategy.aggregation.algorithm",
    _CARD: "cluster.network.nic",
    _GPU: "cluster.node",
    _BATCH: "workload.batch_per_gpu",
    _BUCKET: "strategy.overlap.bucket_size",
    _NODES: "cluster.nodes",
    **{name: f"{path}.kind" for name, path in _PARTS.items()},
}
_CARDS = ("ethernet-10g", "ethernet-25g", "ethernet-100g", "ib-hdr", "ib-ndr")
_GPUS = ("a100-sxm-80gb", "h100-sxm", "b200")
_BUCKETS = ["1 MB", "2 MB", "5 MB", "10 MB", "25 MB", "50 MB", "100 MB"]
# Values that do not depend on the scenario, and those compared at first.
_FIXED = {_ALGORITHM: (list(ALL_REDUCES), _QUICK), _BUCKET: (_BUCKETS, _BUCKETS)}
_WORDS = {_CARD: device_words, _GPU: device_words, _NODES: nodes_words}
_HELD = ("cluster", "workload", "run")  # parts of the scenario with knobs of their own
_CHOSEN = ("cluster.network", *_PARTS.values(), "workload.input", "disturbance.jitter")
_BETWEEN_NODES = ("efa", "ethernet", "ib", "roce", "slingshot", "tcpx")


def draw() -> None:
    """Draw the page."""
    spec = sidebar.draw()
    views: dict[str, Callable[[Spec], None]] = {
        _STRATEGIES: _strategies,
        _SIZES: _algorithms,
        "a sweep": lambda _: sweeps.draw(),
    }
    views[controls.switch("what to compare", tuple(views), "compare", _STRATEGIES)](spec)


def _strategies(spec: Spec) -> None:
    parts = [part for part in _PATHS if part != _NODES or counted_nodes(spec)]
    knobs = {path: knob for path, knob in _knobs().items() if path not in _PATHS.values()}
    part = controls.pick("vary", [*parts, *knobs], "vary", _ALGORITHM)
    path, spec = _PATHS.get(part, part), with_fitted_times(spec)
    known, usual = _around(knobs[part], spec) if part in knobs else _values(part, spec)
    # Only the all-reduce has an algorithm.
    if part == _ALGORITHM and controls.stated(spec, "strategy.aggregation.kind") not in (
        None,
        "allreduce",
    ):
        spec = spec.without("strategy.aggregation").with_value(
            "strategy.aggregation.kind", "allreduce"
        )
        st.caption("The scenario has no all-reduce: here its gradients meet in one.")
    values = controls.pick_several(
        "among", known, f"among-{path}", usual, words=_WORDS.get(part, choice_words)
    )
    specs = {value: _with(spec, part, value) for value in values}
    found = simulated(specs)
    if found is not None:
        _side_by_side(part, found)
        _use(specs, _WORDS.get(part, kind_words))
        why_not(found, _WORDS.get(part, kind_words))


def _values(part: str, spec: Spec) -> tuple[list[str], Sequence[str]]:
    """Return the values of ``part``, and the ones compared at first, with the scenario's own."""
    if part in _FIXED:
        return _FIXED[part]
    if part in _PARTS:
        kinds = list(forms.union(_PARTS[part]).kinds)
        return kinds, kinds
    given = scenario_of(spec)
    if part == _NODES:
        each = given.cluster.ranks // given.cluster.nodes
        doubled = [str(2**power) for power in range(13) if 2**power * each <= _MOST_GPUS]
        return doubled, doubled
    if part == _BATCH:
        own = given.workload.batch_per_gpu
        near = [own * factor // 4 for factor in (1, 2, 4, 8, 16) if own * factor >= 4]
        return [str(batch) for batch in near], [str(batch) for batch in near[:-1]]
    first = given.cluster.parts[0]
    if part == _GPU:
        own_gpu = first.accelerator.name
        return list(gpus()), tuple(dict.fromkeys((own_gpu, *_GPUS)))
    own_card = given.cluster.nic_link(first).name
    cards = [name for name in links() if name.startswith(_BETWEEN_NODES)]
    return list(dict.fromkeys((*cards, own_card))), tuple(dict.fromkeys((own_card, *_CARDS)))


def _knobs() -> dict[str, forms.Field]:
    """Return the single values of the scenario's parts by their paths, as its kinds have them."""
    schemas = {path: forms.part(path) for path in _HELD}
    schemas |= {path: given for path in _CHOSEN if (given := controls.schema_of(path))}
    return {
        each.path: each for path, given in schemas.items() for each in forms.fields(given, path)
    }


def _around(knob: forms.Field, spec: Spec) -> tuple[list[str], Sequence[str]]:
    """Return values of a knob to compare: its choices, or those that the user writes."""
    if knob.type == "truth":
        return ["false", "true"], ["false", "true"]
    if knob.choices:
        return list(knob.choices), list(knob.choices)[:6]
    own = controls.stated(spec, knob.path) or knob.default or 1
    near = [own // 2, own, 2 * own] if isinstance(own, int) else [own]
    usual = ", ".join(str(each) for each in near if each)
    given = controls.write("values, between commas", f"values-{knob.path}", usual, knob.help)
    values = list(dict.fromkeys(filter(None, map(str.strip, given.split(",")))))
    return values, values


def _with(spec: Spec, part: str, value: str) -> Spec:
    if part == _GPU:
        return with_gpus(spec, value, scenario_of(spec).cluster.ranks)
    if part == _BUCKET:
        spec = spec.without("strategy.overlap").with_value("strategy.overlap.kind", "buckets")
    if part == _NODES:
        spec = few_steps(spec)
    return spec.with_value(_PATHS.get(part, part), value)


def _use(specs: Mapping[str, Spec], called: Callable[[str], str]) -> None:
    """Draw a button for each compared value, which makes it the shown scenario."""
    with st.container(horizontal=True, gap="small"):
        for value, spec in specs.items():
            st.button(
                f"use {called(value)}", key=f"use {value}", on_click=state.show_spec, args=(spec,)
            )


def _side_by_side(part: str, found: Mapping[str, Result | DpsimError]) -> None:
    """Draw the results, the fastest first, or along the number of nodes.

    The table is that of `dpsim compare`, with the data that the busiest worker sends.
    """
    called = _WORDS.get(part, kind_words)
    known = {called(name): each for name, each in found.items() if isinstance(each, Result)}
    if not known:
        return
    if part == _NODES:
        chart(scaling_figure(list(known.values())), key="scaling")
    else:
        known = by_rate(known)
        sentence(f"{fastest(known)}.")
        chart(breakdown_figure(list(known.values()), list(known)), key="side by side")
    rows = compare_table([({"": name}, result) for name, result in known.items()])
    sent = [human(result.traffic.sent_by_busiest, DATA, 4) for result in known.values()]
    table({**columns(rows), "sent by the busiest": sent})


def _algorithms(spec: Spec) -> None:
    algorithms = controls.pick_several(
        "algorithms", [name for name in ALL_REDUCES if name != "auto"], "algorithms", _QUICK
    )
    found = finished("timing collectives", collectives, spec, tuple(algorithms), _SIZES_B)
    if found:
        chart(algorithms_figure(found), key="sizes", height=_HEIGHT)
    if found is not None:
        missing = sorted(set(algorithms) - {row.algorithm for row in found})
        if missing:
            st.caption(f"Not on this cluster: {', '.join(missing)}.")
