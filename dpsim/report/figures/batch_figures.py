"""Figures of batches, GPUs, learners, and the time and cost of a training.

Each takes results of runs that differ in batch, GPUs or learners, or their JSON objects.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import plotly.graph_objects as go

from dpsim.base.units import TIME, human
from dpsim.engine import Result
from dpsim.report.figures.style import (
    COLOURS,
    DASHES,
    SYMBOLS,
    Answer,
    answer,
    counts_axis,
    line_of,
    log_axis,
    marker_of,
    set_style,
    time_unit,
)
from dpsim.report.theme import COLOUR
from dpsim.studies.front import pareto_front

_RUNS = Sequence[Result | Answer]
ErrorRow = tuple[float, float, float]  # global batch, error in %, its deviation over runs


def has_targets(runs: _RUNS) -> bool:
    """Return whether training to a target is known for several of ``runs``."""
    return len(_targets(runs)) > 1


def epochs_figure(runs: _RUNS) -> go.Figure:
    """Draw the passes over the data to the target against the global batch.

    Steps are drawn if the size of the data set is unknown. Batches outside those to which the
    constants were fitted are open circles.
    """
    targets = sorted(_targets(runs), key=lambda target: int(target["global_batch"]))
    # Use epochs only if all targets have them, because one axis must not mix epochs and steps.
    in_epochs = all(target["epochs"] is not None for target in targets)
    figure = go.Figure()
    figure.add_scatter(
        x=[target["global_batch"] for target in targets],
        y=[target["epochs" if in_epochs else "steps"] for target in targets],
        mode="lines+markers",
        line={"color": COLOURS[0]},
        marker={
            "size": 9,
            "symbol": [
                "circle-open" if target["batch"]["extrapolated"] else "circle" for target in targets
            ],
        },
        customdata=[target["batch"]["text"] for target in targets],
        # An empty ``extra`` drops the box with the line's name, which a single line does not need.
        hovertemplate="batch %{x:,}: %{y:,.4g}<br>%{customdata}<extra></extra>",
    )

    unit = "epochs" if in_epochs else "steps"
    title = f"{unit.capitalize()} to {targets[0]['target']} on {targets[0]['dataset']}"
    axis = counts_axis([target["global_batch"] for target in targets])
    return set_style(figure, title, "global batch (samples)", unit, xaxis=axis)


def time_to_target_figure(runs: _RUNS) -> go.Figure:
    """Draw the time to the target against GPUs, a line per batch of a GPU, or against the batch.

    Bars are the 95 % interval of the number of steps.
    """
    answers = [run for run in map(_with_batch, runs) if _is_known(run)]
    factor, unit = time_unit(max(float(each["to_target"]["time_s"]) for each in answers))
    by_gpus = len({each["workers"] for each in answers}) > 1
    lines: dict[int, list[Answer]] = {}
    for each in answers:
        # With a single number of GPUs the x axis is the batch, and there is one line.
        lines.setdefault(_batch(each) if by_gpus else 0, []).append(each)

    figure = go.Figure()
    for number, (batch, group) in enumerate(sorted(lines.items())):
        group.sort(key=lambda each: int(each["to_target"]["global_batch"]))
        targets = [each["to_target"] for each in group]
        figure.add_scatter(
            x=[_across(each, by_gpus) for each in group],
            y=[factor * target["time_s"] for target in targets],
            error_y={
                "array": [factor * (target["high_s"] - target["time_s"]) for target in targets],
                "arrayminus": [factor * (target["time_s"] - target["low_s"]) for target in targets],
                "thickness": 1,
            },
            mode="lines+markers",
            name=f"{batch:,} a GPU" if by_gpus else "time to target",
            line=line_of(number),
            marker=marker_of(number, size=8),
        )

    across = "GPUs" if by_gpus else "global batch (samples)"
    title = f"Time to {answers[0]['to_target']['target']}"
    ends = [factor * each["to_target"][end] for each in answers for end in ("low_s", "high_s")]
    axes = {
        "xaxis": counts_axis([_across(each, by_gpus) for each in answers]),
        "yaxis": log_axis(ends),
    }
    return set_style(figure, title, across, f"time ({unit})", **axes)


def utilisation_figure(runs: _RUNS) -> go.Figure:
    """Draw the model FLOP utilisation (MFU) against the batch of a GPU.

    A line for each number of GPUs. Samples per second of a GPU if a peak or the model's FLOP are
    unknown.
    """
    answers = sorted(map(_with_batch, runs), key=_batch)
    has_mfu = all(each.get("mfu") is not None for each in answers)
    lines: dict[int, list[Answer]] = {}
    for each in answers:
        lines.setdefault(each["workers"], []).append(each)

    figure = go.Figure()
    for number, (gpus, group) in enumerate(sorted(lines.items())):
        figure.add_scatter(
            x=[_batch(each) for each in group],
            y=[row["mfu"] if has_mfu else row["throughput_samples_per_s"] / gpus for row in group],
            mode="lines+markers",
            name=f"{gpus:,} GPUs",
            showlegend=len(lines) > 1,
            line=line_of(number),
            marker=marker_of(number, size=8),
            hovertemplate="batch %{x:,}: %{y:.3g}<extra></extra>",
        )
    up = "share of the peak (MFU)" if has_mfu else "samples/s per GPU"
    axis = {"rangemode": "tozero", **({"tickformat": ".0%"} if has_mfu else {})}
    across = counts_axis([_batch(each) for each in answers])
    title = "Utilisation against the batch"
    return set_style(figure, title, "batch per GPU (samples)", up, xaxis=across, yaxis=axis)


def learners_figure(runs: Sequence[tuple[int, Result | Answer]]) -> go.Figure:
    """Draw throughput against the learners that share each GPU, for pairs of (learners, run)."""
    pairs = sorted((learners, answer(run)) for learners, run in runs)
    figure = go.Figure()
    figure.add_scatter(
        x=[learners for learners, _ in pairs],
        y=[each["throughput_samples_per_s"] for _, each in pairs],
        mode="lines+markers",
        line={"color": COLOURS[0]},
        marker={"size": 8},
        hovertemplate="%{x} learners: %{y:,.4g} samples/s<extra></extra>",
    )
    axes: dict[str, Any] = {"xaxis": {"dtick": 1}, "yaxis": {"rangemode": "tozero"}}
    return set_style(
        figure,
        "Throughput against learners",
        "learners on a GPU",
        "samples/s",
        **axes,
    )


def cost_figure(
    runs: _RUNS, price_per_gpu_hour: float | None = None, currency: str = ""
) -> go.Figure:
    """Draw the cost of a training against its time, with the Pareto front.

    Cost is in GPU hours without a price.
    """
    answers = [run for run in map(_with_batch, runs) if _is_known(run)]
    times = [float(each["to_target"]["time_s"]) for each in answers]
    factor, unit = time_unit(max(times))
    # Without a price an hour costs one, so that GPU hours are drawn.
    price = 1.0 if price_per_gpu_hour is None else price_per_gpu_hour
    costs = [price * float(each["to_target"]["gpu_hours"]) for each in answers]
    best = pareto_front(range(len(times)), times.__getitem__, costs.__getitem__)

    figure = go.Figure()
    for name, which, look in (
        ("every run", range(len(answers)), {"mode": "markers"}),
        # The front has steps instead of slopes, because nothing between its runs was simulated.
        ("Pareto front", best, {"mode": "lines+markers", "line": {"shape": "hv"}}),
    ):
        figure.add_scatter(
            name=name,
            x=[factor * times[number] for number in which],
            y=[costs[number] for number in which],
            marker={"size": 9, "color": COLOURS[0] if which is best else COLOUR["grey"]},
            customdata=[_hover_text(answers[number]) for number in which],
            hovertemplate="%{customdata}<br>%{x:.4g}, %{y:,.4g}<extra></extra>",
            **look,
        )

    up = "GPU hours" if price_per_gpu_hour is None else f"cost ({currency})"
    title = f"Cost against time to {answers[0]['to_target']['target']}"
    axes = {"xaxis": log_axis([factor * time for time in times]), "yaxis": log_axis(costs)}
    return set_style(figure, title, f"time ({unit})", up, **axes)


def error_figure(series: Mapping[str, Sequence[ErrorRow]], title: str) -> go.Figure:
    """Draw published validation errors against the batch, a line for each of ``series``."""
    figure = go.Figure()
    for number, (name, unsorted) in enumerate(series.items()):
        rows = sorted(unsorted)
        figure.add_scatter(
            x=[batch for batch, _, _ in rows],
            y=[error for _, error, _ in rows],
            name=name,
            error_y={"array": [deviation for _, _, deviation in rows], "thickness": 1},
            mode="lines+markers",
            line={"color": COLOURS[5 - number], "dash": DASHES[number]},
            marker={"size": 8, "symbol": SYMBOLS[number]},
            hovertemplate="batch %{x:,}: %{y:.2f} %<extra></extra>",
            showlegend=len(series) > 1,
        )
    axis = counts_axis([int(batch) for rows in series.values() for batch, _, _ in rows])
    return set_style(figure, title, "global batch (samples)", "top-1 error (%)", xaxis=axis)


def _targets(runs: _RUNS) -> list[Any]:
    answers = map(answer, runs)
    return [run["to_target"] for run in answers if _is_known(run)]


def _is_known(run: Answer) -> bool:
    """Return whether a run's time to its model's target is known."""
    target = run.get("to_target")
    return target is not None and target["time_s"] is not None


def _with_batch(run: Result | Answer) -> Answer:
    """Return the JSON object of a run; for a result, add the batch of a GPU, which it lacks."""
    if isinstance(run, Result):
        return {**run.to_json(), "batch_per_worker": run.batch_per_worker}
    return run


def _across(each: Answer, by_gpus: bool) -> int:
    return int(each["workers"] if by_gpus else each["to_target"]["global_batch"])


def _batch(each: Answer) -> int:
    """Return the samples of a GPU in a step."""
    stated = each.get("batch_per_gpu") or each.get("batch_per_worker")
    if stated:
        return int(stated)
    target = each.get("to_target")
    return int(target["global_batch"] // each["workers"]) if target else 0


def _hover_text(each: Answer) -> str:
    took = human(float(each["step_time_s"]["mean"]), TIME)
    return f"{each['workers']:,} GPUs, {_batch(each):,} a GPU, {took} a step"
