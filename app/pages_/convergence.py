"""Convergence: a small model trained in simulated time, with several syncs or batches."""

from __future__ import annotations

from contextlib import suppress

import streamlit as st

from app import controls, forms, sidebar
from app.answers import replayed
from app.charts import chart, table
from app.headline import sentence
from app.reading import scenario
from app.spec import Spec
from app.waiting import run_in_background, scenario_of
from app.words import kind_words
from dpsim.base.errors import DpsimError
from dpsim.base.units import DATA, TIME, human
from dpsim.report.figures.replay_figure import replay_figure
from dpsim.studies.replay import Replay

_HEIGHT = 620  # pixels
# The initial comparison is with the first, or with the second if the scenario has the first.
_COMPARED_AT_FIRST = ("local-sgd", "bsp")
_SYNCS, _BATCHES = "synchronisation", "batches"
_FACTORS = (1, 2, 4, 8, 16)  # quarters of the small model's batch


def draw() -> None:
    """Draw the page."""
    spec = sidebar.draw()
    st.caption(
        "A small model learns handwritten digits by real SGD. The scenario determines when each "
        "gradient is computed, on which parameters, and when it is applied: losses and accuracies "
        "are real, their times are simulated."
    )

    with st.expander("The small model"):
        controls.fields("replay", without=("points",))
    compared = {_SYNCS: _syncs, _BATCHES: _batches}
    specs = compared[controls.switch("what differs", tuple(compared), "trained", _SYNCS)](spec)

    replays: dict[str, Replay] = {}
    for name, chosen in specs.items():
        found = run_in_background(f"training with {name}", replayed, chosen)
        if found is not None:
            replays[name] = found
    if replays:
        sentence(_verdict(replays))
        chart(replay_figure(replays), key="replay", height=_HEIGHT)
        _draw_table(replays)


def _syncs(spec: Spec) -> dict[str, Spec]:
    """Return the scenario by its kind of synchronisation, and with those chosen for comparison."""
    kind = scenario_of(spec).strategy.sync.kind
    known = {}
    for other in forms.union("strategy.sync").kinds:
        changed = spec.without("strategy.sync").with_value("strategy.sync.kind", other)
        # Offer only valid kinds: some work only with certain aggregations.
        with suppress(DpsimError):
            scenario(changed)
            known[other] = changed
    known.pop(kind, None)
    if not known:
        st.caption("No other synchronisation is compatible with the rest of this scenario.")
        return {kind_words(kind): spec}
    chosen = controls.pick_several(
        f"{kind_words(kind)}, compared with",
        list(known),
        "replayed",
        [other for other in _COMPARED_AT_FIRST if other in known][:1],
        "Those compatible with the rest of the scenario.",
    )
    return {kind_words(kind): spec, **{kind_words(other): known[other] for other in chosen}}


def _batches(spec: Spec) -> dict[str, Spec]:
    """Return the scenario with several batches of the small model, each over as many samples."""
    given = scenario_of(spec).replay
    known = [str(given.batch * factor // 4) for factor in _FACTORS if given.batch * factor >= 4]
    st.caption("Each trains on as many samples: a smaller batch takes more and noisier steps.")
    specs = {}
    for batch in controls.pick_several("batches", known, "batches", known):
        steps = max(1, given.batch * given.steps // int(batch))
        changed = spec.with_value("replay.batch", batch)
        specs[f"batch {batch}"] = changed.with_value("replay.steps", str(steps))
    return specs


def _verdict(replays: dict[str, Replay]) -> str:
    """Return which reaches the target first."""
    rows = {name: replay.to_json() for name, replay in replays.items()}
    times = {
        name: row["time_to_target_s"]
        for name, row in rows.items()
        if row["time_to_target_s"] is not None
    }
    # Otherwise the final accuracy shows which came closest.
    if not times:
        best = max(rows, key=lambda name: float(rows[name]["final_accuracy"]))
        return f"None reaches the target; {best} reaches {rows[best]['final_accuracy']:.1%}."
    first, *others = sorted(times, key=lambda name: float(times[name]))
    text = f"{first} reaches the target in {human(times[first], TIME, 3)} of simulated time"
    after = ", ".join(f"{name} in {human(times[name], TIME, 3)}" for name in others)
    return f"{text}, {after}." if after else f"{text}."


def _draw_table(replays: dict[str, Replay]) -> None:
    rows = [replay.to_json() for replay in replays.values()]
    table(
        {
            "trained with": list(replays),
            "time to target": [_or_never(row["time_to_target_s"]) for row in rows],
            "final accuracy": [f"{row['final_accuracy']:.1%}" for row in rows],
            "simulated time": [human(row["time_s"], TIME, 4) for row in rows],
            "sent in all": [human(row["bytes"], DATA, 4) for row in rows],
            "updates late, mean": [f"{row['versions']['mean']:.3g}" for row in rows],
        }
    )


def _or_never(seconds: float | None) -> str:
    return "not reached" if seconds is None else human(seconds, TIME, 4)
