"""Algorithms: schedules round by round, side by side, on a switch or the scenario's cluster."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

import streamlit as st

from app import controls, sidebar
from app.headline import sentence
from app.lessons import walkthroughs
from app.spec import Spec
from app.waiting import refuse, run_in_background, scenario_of
from dpsim.base.units import DATA, TIME, human, plural
from dpsim.collectives import OPERATIONS, algorithm_names
from dpsim.report.pages.steps_page import MOST_BESIDE, player, player_data
from dpsim.studies.walkthrough import MOST_RANKS, Walkthrough

_SHOWN_AT_FIRST = ("ring", "tree", "butterfly")
_SWITCH, _CLUSTER = "on a switch", "on the scenario's cluster"
_RANKS = tuple(str(ranks) for ranks in range(2, MOST_RANKS + 1))
_SIZES = ("1 KiB", "64 KiB", "1 MiB", "16 MiB", "128 MiB", "1 GiB")
_RATES = ("1 Gb/s", "10 Gb/s", "25 Gb/s", "100 Gb/s", "400 Gb/s")
_LATENCIES = ("0 s", "1 us", "10 us", "100 us")


def draw() -> None:
    """Draw the page."""
    st.caption(
        "Each row is a rank, each column a chunk of its vector. The contents come from executing "
        "the schedule, the same one that is simulated and that runs on real ranks."
    )

    names, operation = _algorithms()
    where = controls.switch("where", (_SWITCH, _CLUSTER), "where", _SWITCH)
    with st.container(horizontal=True):
        size = controls.slide("each rank's vector", _SIZES, "size", "1 MiB")
        network = _choose_switch() if where == _SWITCH else _choose_cluster()
    # Cached by its arguments, so going back to an earlier choice is instant.
    found = run_in_background(
        "executing the schedule", walkthroughs, names, operation, size, network
    )
    if found is None:
        return

    sentence(_verdict(names, found))
    data = [player_data(walkthrough) for walkthrough in found]
    _player()(key="steps", data={"walks": data})


def _verdict(names: Sequence[str], walkthroughs: Sequence[Walkthrough]) -> str:
    """Return time, rounds and the busiest rank's traffic of each algorithm, the fastest first."""
    known = sorted(zip(names, walkthroughs, strict=True), key=lambda each: _seconds(each[1]))
    return "; ".join(f"{name}: {_summary(walkthrough)}" for name, walkthrough in known) + "."


def _seconds(walkthrough: Walkthrough) -> float:
    """Return the time at which the last rank has ended the last round."""
    return (walkthrough.rounds[-1].seconds or 0.0) if walkthrough.rounds else 0.0


def _summary(walkthrough: Walkthrough) -> str:
    sent = walkthrough.rounds[-1].sent_by_busiest if walkthrough.rounds else 0
    took = f"{human(_seconds(walkthrough), TIME, 4)} in {plural(len(walkthrough.rounds), 'round')}"
    return f"{took}, {human(sent, DATA, 4)} sent by the busiest rank"


def _algorithms() -> tuple[tuple[str, ...], str]:
    """Return the algorithms to show, and their operation."""
    left, right = st.columns([1, 3])
    with left:
        operation = controls.pick("operation", list(OPERATIONS), "operation", "all-reduce")
    known = list(algorithm_names(operation))
    first = [name for name in _SHOWN_AT_FIRST if name in known] or known[:1]
    with right:
        names = controls.pick_several(
            f"algorithms, up to {MOST_BESIDE}", known, "algorithms", first, most=MOST_BESIDE
        )
    # Possibly nothing that was chosen before belongs to this operation.
    return tuple(names or first), operation


def _choose_switch() -> tuple[int, str, str]:
    """Return the chosen ranks, rate and latency of a switch."""
    ranks = controls.slide("ranks", _RANKS, "ranks", "4")
    rate = controls.slide("rate of each link", _RATES, "rate", "25 Gb/s")
    return int(ranks), rate, controls.slide("latency of a message", _LATENCIES, "latency", "1 us")


def _choose_cluster() -> Spec:
    """Return the scenario of the cluster, with as many nodes as fit."""
    spec = sidebar.draw()
    cluster = scenario_of(spec).cluster
    if cluster.ranks <= MOST_RANKS:
        return spec
    nodes = MOST_RANKS // (cluster.ranks // cluster.nodes)
    if cluster.groups or nodes < 1:
        refuse(
            f"cluster: must have at most {MOST_RANKS} GPUs to be shown round by round, but has "
            f"{cluster.ranks:,}"
        )
        st.stop()
    st.caption(f"{nodes} of the scenario's {cluster.nodes:,} nodes.")
    return spec.with_value("cluster.nodes", str(nodes))


@cache
def _player() -> Any:
    """Return the browser's player, shared with ``dpsim collective --steps --html``."""
    mounted = (
        "\nexport default function ({parentElement, data}) {\n"
        '  const root = parentElement.querySelector(".dpsim-steps");\n'
        # The page reruns at every widget: the player continues unless the walkthroughs change.
        "  const walks = JSON.stringify(data.walks);\n"
        "  if (root.walks !== walks) { root.walks = walks; drawSteps(root, data.walks); }\n"
        "}\n"
    )
    return st.components.v2.component(
        "dpsim_steps",
        html='<div class="dpsim-steps"></div>',
        css=player("css"),
        js=player("js") + mounted,
    )
