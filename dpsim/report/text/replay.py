"""A replayed training as tables and lines for a terminal."""

from __future__ import annotations

from collections.abc import Iterable

from rich.table import Table

from dpsim.base.terminal import table
from dpsim.base.units import DATA, TIME, human
from dpsim.studies.replay import GradientHistory, Replay

_ROWS = 10


def replay_table(result: Replay) -> Table:
    """Return loss and accuracy at about ten moments, including the first and the last."""
    rows, points = [], result.curve.points
    # A set, since a short curve has fewer points than the rows requested.
    for number in sorted({round(place * (len(points) - 1) / _ROWS) for place in range(_ROWS + 1)}):
        point = points[number]
        time, sent = human(point.time_s, TIME), human(point.bytes, DATA, 3)
        loss, accuracy = f"{point.loss:.4g}", f"{point.accuracy:.1%}"
        rows.append((time, f"{point.samples:,}", sent, loss, accuracy))
    title = f"{result.name}: {result.config.model} on digits, {result.workers} workers"
    return table(title, ("simulated time", "samples", "sent", "loss", "accuracy"), rows)


def replay_notes(result: Replay) -> list[str]:
    """Return when the target was reached, the staleness of gradients, and the training."""
    config, reached = result.config, result.curve.first(result.config.target_accuracy)
    target = f"{config.target_accuracy:.0%} of the test images"
    learners = f", {result.learners} learners each" if result.learners > 1 else ""
    if reached is None:
        first = f"target      {target} was not reached"
    else:
        first = (
            f"target      {target} after {human(reached.time_s, TIME)}, {reached.samples:,} "
            "samples and "
            f"{human(reached.bytes, DATA, 3)} sent"
        )
    lines = [
        first,
        f"training    batch {config.batch}{learners}, learning rate {config.learning_rate:g}, "
        f"momentum {config.momentum:g}, "
        f"{config.steps:,} iterations of each worker, seed {result.seed}",
    ]
    late = result.staleness
    if late["max"]:
        lines.append(f"staleness   {late['mean']:.2f} updates on average, {late['max']} at most")
    lines.append(
        "time        is simulated for the scenario's model, but a small model learns: use it "
        "to compare strategies"
    )
    return lines


def gradients_table(listed: Iterable[GradientHistory]) -> Table:
    """Return a row for each gradient, by the time when it was begun."""
    headings = (
        "worker",
        "iteration",
        "begun",
        "done",
        "on version",
        "outcome",
        "update",
        "applied",
        "staleness",
        "others read it",
    )
    rows = (
        (
            str(each.worker),
            str(each.clock),
            human(each.begun_s, TIME),
            "" if each.done_s is None else human(each.done_s, TIME),
            str(each.read),
            each.fate,
            "" if each.update is None else str(each.update),
            "" if each.applied_s is None else human(each.applied_s, TIME),
            "" if each.staleness is None else str(each.staleness),
            "" if each.first_read is None else "{:+d} to {:+d}".format(*each.first_read),
        )
        for each in listed
    )
    return table("the use of each gradient", headings, rows, left=("outcome",))
