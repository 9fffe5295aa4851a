"""Convergence: a small model trained in the simulated time of each kind of synchronisation."""

from __future__ import annotations

from functools import partial

import streamlit as st

from app import controls, forms, sidebar, state
from app.answers import replayed
from app.charts import chart, table
from app.headline import sentence
from app.reading import scenario
from app.spec import Spec
from app.waiting import finished, scenario_of
from app.words import kind_words
from dpsim.base.errors import DpsimError
from dpsim.base.units import DATA, TIME, human
from dpsim.report.figures.replay_figure import replay_figure
from dpsim.studies.replay import Replay

_HEIGHT = 620  # pixels
# The initial comparison: the second where the first is the scenario's own.
_FIRST = ("local-sgd", "bsp")


def draw() -> None:
    """Draw the page."""
    sidebar.draw()
    spec = state.current().spec
    own = scenario_of(spec).strategy.sync.kind
    st.caption(
        "A small model learns handwritten digits by real SGD. When each gradient is computed, on "
        "which parameters, and when it arrives, is the scenario's; what is shown are real losses "
        "and accuracies against simulated seconds."
    )

    others = _others(spec, own)
    with st.expander("The small model"):
        for each in forms.fields(forms.part("replay"), "replay", without=("points",)):
            controls.field(each)

    replays: dict[str, Replay] = {}
    for kind in (own, *others):
        chosen = spec if kind == own else spec.with_kind("strategy.sync", "kind", kind)
        # A separate kind of task for each: a session waits for one task of a kind at a time.
        found = finished(
            f"training with {kind}", (f"replay {kind}", chosen), partial(replayed, chosen)
        )
        if found is not None:
            replays[kind_words(kind)] = found
    if replays:
        sentence(_verdict(replays))
        chart(replay_figure(replays), key="replay", height=_HEIGHT)
        _table(replays)


def _others(spec: Spec, own: str) -> list[str]:
    """Return the kinds chosen for comparison with the scenario's ``own``."""
    # Offer only valid kinds: some work only with certain aggregations.
    known = [
        kind
        for kind in forms.union("strategy.sync").kinds
        if kind != own and _goes(spec.with_kind("strategy.sync", "kind", kind))
    ]
    if not known:
        st.caption("No other way to synchronise goes with the rest of this scenario.")
        return []
    first = [kind for kind in _FIRST if kind in known][:1]
    return controls.pick_several(
        f"{kind_words(own)}, compared with",
        known,
        "replayed",
        first,
        "Those that go with the rest of the scenario.",
    )


def _goes(spec: Spec) -> bool:
    """Return whether it is a valid scenario."""
    try:
        scenario(spec)
    except DpsimError:
        return False
    return True


def _verdict(replays: dict[str, Replay]) -> str:
    """Return which kind reaches the target first."""
    rows = {name: replay.to_json() for name, replay in replays.items()}
    times = {
        name: row["time_to_target_s"]
        for name, row in rows.items()
        if row["time_to_target_s"] is not None
    }
    # Otherwise the final accuracy shows which came closest.
    if not times:
        best = max(rows, key=lambda name: float(rows[name]["final_accuracy"]))
        return f"None reaches the target; {best} comes to {rows[best]['final_accuracy']:.1%}."
    first, *others = sorted(times, key=lambda name: float(times[name]))
    said = f"{first} reaches the target in {human(times[first], TIME, 3)} of simulated time"
    after = ", ".join(f"{name} in {human(times[name], TIME, 3)}" for name in others)
    return f"{said}, {after}." if after else f"{said}."


def _table(replays: dict[str, Replay]) -> None:
    rows = [replay.to_json() for replay in replays.values()]
    table(
        {
            "synchronisation": list(replays),
            "time to target": [_or_never(row["time_to_target_s"]) for row in rows],
            "final accuracy": [f"{row['final_accuracy']:.1%}" for row in rows],
            "simulated time": [human(row["time_s"], TIME, 4) for row in rows],
            "sent in all": [human(row["bytes"], DATA, 4) for row in rows],
            "updates late, mean": [f"{row['versions']['mean']:.3g}" for row in rows],
        }
    )


def _or_never(seconds: float | None) -> str:
    return "not reached" if seconds is None else human(seconds, TIME, 4)
