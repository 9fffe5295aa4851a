"""Classic questions: the effect of batches, GPUs and learners on time, cost and error."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import streamlit as st

from app import controls, measured_errors, sidebar
from app.answers import counted_nodes, few_steps
from app.charts import chart, table
from app.headline import sentence
from app.lessons import grown
from app.plain import plain
from app.reading import with_fitted_times
from app.spec import Spec
from app.waiting import refuse, run_in_background, scenario_of, simulated
from dpsim.base.units import plural
from dpsim.engine import Result
from dpsim.report.figures.batch_figures import (
    cost_figure,
    epochs_figure,
    has_targets,
    learners_figure,
    time_to_target_figure,
    utilisation_figure,
)
from dpsim.report.figures.scaling_figures import scaling_figure
from dpsim.report.figures.style import long_time, rounded

if TYPE_CHECKING:
    import plotly.graph_objects as go

_BATCH = "how large a batch?"
_BATCHES = tuple(2**power for power in range(11))
_BATCH_DIVISORS = (1, 4)  # divisors of the scenario's batch per GPU
_MOST_GPUS = 1_024
_MOST_LEARNERS = 6
_CHART_WIDTH = 510  # pixels, if there are several
_FACTORS = ("2", "3", "4", "5")


def draw() -> None:
    """Draw the page."""
    spec = sidebar.draw()
    questions: dict[str, Callable[[Spec], None]] = {
        _BATCH: _draw_batches,
        "how many GPUs?": _draw_gpus,
        "how many learners?": _draw_learners,
        "a growing batch?": _draw_growing_batch,
        "what was measured?": lambda _: measured_errors.draw(),
    }
    what = controls.switch("question", tuple(questions), "question", _BATCH)
    questions[what](spec)


def _simulate_each(spec: Spec, varied: list[list[str]]) -> dict[int, Result] | None:
    """Simulate ``spec`` with each of ``varied``; return what fits, by index, or None so far."""
    # A few steps suffice to compare points, of which there may be dozens.
    few = few_steps(with_fitted_times(spec))
    found = simulated({str(place): few.with_options(each) for place, each in enumerate(varied)})
    if found is None:
        return None
    done = {int(place): each for place, each in found.items() if isinstance(each, Result)}
    if not done:
        refuse("this scenario must fit with one of the values tried, but fits with none")
    return done or None


def _draw_batches(spec: Spec) -> None:
    st.caption("Only the batch per GPU varies; four steps each.")
    found = _simulate_each(spec, [[f"workload.batch_per_gpu={batch}"] for batch in _BATCHES])
    if found is not None:
        runs = list(found.values())
        epochs = {"epochs": epochs_figure(runs)} if has_targets(runs) else {}
        _draw_answer(runs, _describe_batch, {"utilisation": utilisation_figure(runs), **epochs})


def _draw_answer(
    runs: list[Result], words: Callable[[Result], str], figures: dict[str, go.Figure]
) -> None:
    """Draw which of the runs is best, the ``figures``, and time and cost to a target if known."""
    sentence(_best(runs, words))
    if has_targets(runs):
        figures = figures | {"time": time_to_target_figure(runs), "cost": _cost(runs)}
    with st.container(horizontal=True):
        for key, figure in figures.items():
            with st.container(width=_CHART_WIDTH if len(figures) > 1 else "stretch"):
                chart(figure, key)
    if not has_targets(runs):
        st.info(
            "The number of steps to a target is not known for this model: no published runs of it "
            "were fitted."
        )


def _best(runs: list[Result], words: Callable[[Result], str]) -> str:
    """Return which run reaches the target first, or has most throughput without a target."""
    timed = [(run.time_to_target_s, run) for run in runs]
    known = [(seconds, run) for seconds, run in timed if seconds is not None]
    if len(known) > 1:
        seconds, first = min(known, key=lambda pair: pair[0])
        return f"{words(first)} reaches the target first, in {long_time(seconds)}."
    best = max(runs, key=lambda run: run.throughput_samples_per_s)
    rate = rounded(best.throughput_samples_per_s)
    return f"{words(best)} gives the most throughput, {rate} samples/s."


def _describe_batch(run: Result) -> str:
    return f"A global batch of {run.batch_per_worker * run.workers:,}"


def _describe_cluster(run: Result) -> str:
    return f"A cluster of {run.workers:,} GPUs with {run.batch_per_worker:,} samples each"


def _draw_gpus(spec: Spec) -> None:
    cluster = scenario_of(spec).cluster
    if not counted_nodes(spec):
        refuse("the number of nodes varies only on clusters of one kind of node")
        return
    st.caption("The number of nodes and the batch per GPU vary; four steps each.")

    each = cluster.ranks // cluster.nodes
    batch = scenario_of(spec).workload.batch_per_gpu
    nodes = [4**power for power in range(6) if 4**power * each <= _MOST_GPUS]
    # A scenario with a global batch has none per GPU: then only nodes are varied.
    batches = [max(1, batch // part) for part in _BATCH_DIVISORS] if batch else []
    varied = [
        [f"cluster.nodes={number}", f"workload.batch_per_gpu={size}"]
        for size in batches
        for number in nodes
    ] or [[f"cluster.nodes={number}"] for number in nodes]

    found = _simulate_each(spec, varied)
    if found is not None:
        # ``varied`` begins with the scenario's own batch on each number of nodes.
        same_batch = [result for place, result in found.items() if place < len(nodes)]
        _draw_answer(
            list(found.values()), _describe_cluster, {"efficiency": scaling_figure(same_batch)}
        )


def _draw_learners(spec: Spec) -> None:
    st.caption("Several learners share a GPU, each with its own batch: small batches leave room.")
    varied = [[f"workload.learners_per_gpu={k}"] for k in range(1, _MOST_LEARNERS + 1)]
    found = _simulate_each(spec, varied)
    if found is None:
        return
    pairs = [(place + 1, result) for place, result in found.items()]
    most, best = max(pairs, key=lambda pair: pair[1].throughput_samples_per_s)
    gained = best.throughput_samples_per_s / pairs[0][1].throughput_samples_per_s - 1
    text = f"{plural(most, 'learner')} on a GPU give the most throughput"
    sentence(f"{text}, {gained:.1%} more than {pairs[0][0]}." if gained else f"{text}.")
    chart(learners_figure(pairs), "learners")
    if len(pairs) < len(varied):
        st.caption(f"Shown are the numbers of learners, of 1 to {len(varied)}, that fit.")


def _draw_growing_batch(spec: Spec) -> None:
    st.caption(
        "Instead of lowering the learning rate after 30, 60 and 80 of 90 epochs, the batch grows "
        "by the same factor. Test accuracy is the same after the same number of epochs, with fewer "
        "updates (Smith et al., ICLR 2018)."
    )
    factor = int(controls.slide("growth of the batch at each stage", _FACTORS, "factor", "2"))
    found = run_in_background("simulating", grown, spec, factor)
    if found is None:
        return
    growth, advice = found
    constant, growing = growth.seconds
    sentence(f"{long_time(growing)} in all instead of {long_time(constant)}.")
    table(
        {
            "epochs": [str(stage.epochs) for stage in growth.growing],
            "global batch": [f"{stage.global_batch:,}" for stage in growth.growing],
            "updates": [f"{stage.updates:,.0f}" for stage in growth.growing],
            "instead of": [f"{stage.updates:,.0f}" for stage in growth.constant],
            "time": [long_time(stage.seconds) for stage in growth.growing],
            # The trailing space makes it a different key than the heading above, and is not
            # visible.
            "instead of ": [long_time(stage.seconds) for stage in growth.constant],
        }
    )
    st.markdown(f"The largest batch: {plain(advice)}.")


def _cost(runs: list[Result]) -> go.Figure:
    paid = runs[0].spending
    price = None if paid.hourly is None else paid.hourly / paid.gpus
    return cost_figure(runs, price, paid.currency)
