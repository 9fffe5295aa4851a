"""Traces of all ranks for a terminal: slow ranks, and the spread of steps."""

from __future__ import annotations

from rich.table import Table

from dpsim.base.terminal import table
from dpsim.base.units import TIME, human
from dpsim.imports.kineto_ranks import RankSkew, RankTraces
from dpsim.imports.nsys import NsysReport
from dpsim.workload import TracedStep

_MOST_RANKS = 20  # ranks
_UNEVEN = 1.5  # times an equal share of collectives: from here on a rank is reported as waited for
_COLUMNS = (
    *("rank", "step", "computing", "of the median", "spread", "in collectives", "waited", "idle"),
    "last",
)


def ranks_table(name: str, traces: RankTraces) -> Table:
    """Return the ranks that compute longest, at most 20, with medians over their steps."""
    steps = len(traces.steps)
    slowest = sorted(traces.ranks, key=lambda one: (-one.compute_s, one.rank))
    title = f"{name}: {len(traces.ranks):,} ranks, {steps:,} steps"
    return table(title, _COLUMNS, map(_cells, slowest[:_MOST_RANKS]), left=("rank",))


def _cells(one: RankSkew) -> tuple[str, ...]:
    seconds = (one.collectives_s, one.wait_s, one.idle_s)
    return (
        str(one.rank),
        human(one.step_s, TIME, 4),
        human(one.compute_s, TIME, 4),
        f"{one.slowdown:.3f}",
        f"{one.spread:.1%}",
        *(human(each, TIME, 4) for each in seconds),
        "" if one.last is None else f"{one.last:.0%}",
    )


def ranks_notes(traces: RankTraces) -> list[str]:
    """Return how steps spread over ranks, and which rank is waited for, a line each."""
    skew = traces.skew_s
    notes = []
    hidden = len(traces.ranks) - _MOST_RANKS
    if hidden > 0:
        notes.append(f"not shown    {hidden:,} ranks that compute for less time (--json has all)")
    notes.append(
        f"skew         slowest minus fastest rank of a step: median "
        f"{human(skew['median'], TIME, 3)} ({skew['median'] / traces.median_step_s:.1%} of "
        f"computing), at most {human(skew['max'], TIME, 3)}"
    )
    latest = max(traces.ranks, key=lambda one: one.last or 0.0)
    if latest.last and latest.last > _UNEVEN / len(traces.ranks):
        notes.append(
            f"waited for   rank {latest.rank} most: last in {latest.last:.0%} of its collectives; "
            f"equal ranks would be in {1 / len(traces.ranks):.0%}"
        )
    return notes


def traced_table(name: str, traced: TracedStep) -> Table:
    """Return the layers of a traced step that take longest, and its other parts, with shares."""
    rest = {
        "all other layers": traced.other_layers_s,
        "optimiser": traced.optimizer_s,
        "kernels outside layers": traced.no_layer_s,
        "exposed communication": traced.exposed_s,
        "idle, no kernel runs": traced.idle_s,
    }
    cells = [
        (
            layer.name,
            *(human(each, TIME, 3) for each in (sum(passes), *passes)),
            f"{layer.share:.1%}",
        )
        for layer in traced.longest
        for passes in [(layer.forward_s, layer.backward_s)]
    ]
    cells += [
        (part, human(seconds, TIME, 3), "", "", f"{seconds / traced.step_s:.1%}")
        for part, seconds in rest.items()
        if seconds > 0
    ]
    headings = ("layer, or part of the step", "time", "forward", "backward", "share")
    title = f"{name}: breakdown of a traced step of {human(traced.step_s, TIME, 3)}"
    return table(title, headings, cells, left=headings[:1])


def nsys_table(name: str, report: NsysReport) -> Table:
    """Return each step of a profile, at most 20, with its parts and their shares."""
    device = f" on {report.device}" if report.device else ""
    rows = []
    for step in report.steps[:_MOST_RANKS]:
        parts = (step.compute_s, step.exposed_s, step.idle_s)
        cells = (
            str(step.step),
            human(step.step_s, TIME, 4),
            *(f"{human(each, TIME, 4)}, {each / step.step_s:.0%}" for each in parts),
            human(step.collectives_s, TIME, 4),
            human(sum(step.copies_s.values()), TIME, 4),
        )
        rows.append(cells)
    headings = ("step", "time", "computing", "exposed", "idle", "all collectives", "copies")
    return table(f"{name}: {len(report.steps):,} steps{device}", headings, rows, left=("step",))
