"""Limits of a scenario, and the error of a prediction, as tables and lines for a terminal."""

from __future__ import annotations

from rich.table import Table

from dpsim.base.terminal import table
from dpsim.base.units import TIME, amount, human
from dpsim.report.text.model_error import WITHIN, trust_notes, within
from dpsim.studies.explain import (
    CriticalPath,
    Explanation,
    StragglerCost,
    Trust,
    UncertainInput,
    Uncertainty,
    WaitedFor,
    verdict,
)

KIND_NAMES = {
    "compute": "computing",
    "input": "waiting for input",
    "encode": "encoding and decoding",
    "communication": "communication",
    "waiting": "waiting (for servers, slower workers or the step before)",
}


def path_table(path: CriticalPath, name: str) -> Table:
    """Return the parts of a typical step along its critical path.

    The path may go from worker to worker.
    """
    title = f"{name}: critical path of step {path.step}, {human(path.seconds, TIME)}"
    rows = (
        (KIND_NAMES[kind], human(seconds, TIME, 3), f"{seconds / path.seconds:.1%}")
        for kind, seconds in path.by_kind.items()
        if seconds > 0
    )
    headings = ("on the critical path", "time", "share")
    return table(title, headings, rows, left=headings[:1])


def knobs_table(found: Explanation) -> Table:
    """Return a table of every knob that can be turned, the best first.

    It has the effect of the change on a step, on the time per sample, and on the updates.
    """
    rows = (
        (
            turn.change.words,
            f"{turn.step_change:+.1%}",
            f"{turn.change_per_sample:+.1%}",
            "" if turn.elasticity is None else f"{turn.elasticity:+.2f}",
            "change" if turn.changes_updates else "unchanged",
        )
        for turn in found.by_updates
        if turn.change is not None
    )
    headings = ("change", "step", "per sample", "elasticity", "updates")
    return table("", headings, rows, left=("change", "updates"))


def explanation_notes(found: Explanation) -> list[str]:
    """Return the verdict, the advice, and the knobs that do not apply, a line each."""
    absent = [f"{turn.knob.title}: {turn.why}" for turn in found.turns if turn.change is None]
    advice = []
    for heading, lines in found.advice_by_heading.items():
        advice += [f"{heading}:", *(f"  {line}" for line in lines)] if lines else []
    return [
        verdict(found.base),
        *advice,
        *(["does not apply here:"] if absent else []),
        *(f"  {line}" for line in absent),
    ]


def straggler_notes(found: StragglerCost) -> list[str]:
    """Return the cost of stragglers, the workers waited for, and the causes, a line each."""
    step, without = (human(each, TIME, 3) for each in (found.step_time_s, found.without_s))
    waited = found.straggler_wait_s / found.step_time_s
    notes = [
        f"stragglers: a step takes {step}, and {without} without any ({found.slow_down:+.1%}); "
        f"{waited:.1%} of it is waiting for slower workers",
    ]
    if found.workers:
        notes.append(f"  waited for: {_shares(found.workers)}; {_shares(found.nodes)}")
    for cause in found.causes:
        change = cause.step_time_s / found.step_time_s - 1
        remaining = human(cause.step_time_s, TIME, 3)
        notes.append(f"  without {cause.title}: {remaining} ({change:+.1%})")
    return notes


def _shares(waited: tuple[WaitedFor, ...]) -> str:
    # Shares are sorted from the largest, and negligible after the third.
    return ", ".join(f"{each.name} {each.share:.0%}" for each in waited[:3])


def alternatives_table(found: StragglerCost) -> Table:
    """Return a table of other ways to synchronise with the same stragglers, the fastest first."""
    rows = []
    for way in sorted(found.ways, key=lambda way: -(way.throughput_samples_per_s or 0.0)):
        if way.throughput_samples_per_s is None:
            continue  # it is impossible
        # A way with a throughput was simulated, so it has a step time and a waiting time.
        assert way.step_time_s is not None
        assert way.straggler_wait_s is not None
        cells = (
            way.title,
            amount(way.throughput_samples_per_s),
            human(way.step_time_s, TIME, 3),
            human(way.straggler_wait_s, TIME, 3),
            way.changes or "unchanged",
        )
        rows.append(cells)
    headings = ("way to synchronise", "samples/s", "step", "waiting", "updates")
    return table("", headings, rows, left=(headings[0], headings[-1]))


def refused_alternatives(found: StragglerCost) -> list[str]:
    """Return the impossible ways, a line for each reason."""
    titles: dict[str, list[str]] = {}
    for way in found.ways:
        if way.refused is not None:
            # Group by the rule if there is one, because refusals name each way's strategies.
            titles.setdefault(way.rule or way.refused, []).append(way.title)
    return [f"cannot be: {', '.join(names)}: {why}" for why, names in titles.items()]


def uncertainty_table(found: Uncertainty) -> Table:
    """Return a table of uncertain inputs, their ranges, and their effect on the step's interval."""
    low, high = (human(each, TIME, 3) for each in (found.low, found.high))
    step = human(found.step_time_s, TIME, 3)
    title = f"sources of the interval: a step takes {step}, 90% interval {low} to {high}"
    headings = ("uncertain input", "lies within", "share alone", "with others", "step if known")
    rows = (
        (
            item.name,
            _range(item),
            _percent(item.first_order),
            _percent(item.total),
            " to ".join(human(end, TIME, 3) for end in item.without_s),
        )
        for item in found.inputs
    )
    return table(title, headings, rows, left=headings[:1])


def _range(of: UncertainInput) -> str:
    if of.unit == "1":
        return f"{of.low:.2f} to {of.high:.2f} x"
    return " to ".join(human(end, TIME, 3) for end in (of.low, of.high))


def _percent(share: float | None) -> str:
    return "" if share is None else f"{share:.1%}"


def uncertainty_notes(found: Uncertainty) -> list[str]:
    """Return each input's meaning and basis, and how to narrow the interval."""
    notes = []
    for each in found.inputs:
        notes.append(f"{each.name}: {each.title}; {each.basis}")
        # An input with equal ends is known, and need not be measured.
        if each.high > each.low:
            notes.append(f"  to narrow it, {each.narrow}")
    if found.latency_share is not None:
        latency = found.latency_share
        rates = 1 - found.latency_share
        notes.append(
            f"of communication's time {latency:.1%} is latency, {rates:.1%} bytes at links' rates; "
            "its error is one factor on both"
        )
    return notes


def sources_table(found: Trust) -> Table:
    """Return the sources of error: the interval of each alone, and its share of the variance."""
    interval = found.interval
    step = human(found.step_time_s, TIME, 3)
    title = f"{found.name}: {step}, {WITHIN} {within(interval.low, interval.high)}"
    shares = {each.name: each.total for each in found.uncertainty.inputs}
    rows = []
    for name, low, high in interval.sources:
        share = shares.get(name)
        shown = "" if share is None else f"{share:.0%}"
        rows.append((name, within(low, high), f"{high / low:.2f}", shown))
    headings = ("source of error", "alone", "high over low", "share of variance")
    return table(f"{title} (high over low {interval.width:.2f})", headings, rows, headings[:1])


def basis_notes(found: Trust) -> list[str]:
    """Return the basis of the interval, the nearest measurements, and the extrapolations."""
    return [f"basis       {found.interval.basis}", *trust_notes(found.interval)]


def measures_table(found: Trust) -> Table:
    """Return possible measurements, and the interval after each."""
    rows = []
    for each in found.measures:
        low, high = each.interval.low, each.interval.high
        change = f"{found.interval.width:.2f} -> {each.interval.width:.2f}"
        rows.append((each.what, within(low, high), change, each.how))
    headings = ("measure", WITHIN, "high over low", "how")
    return table("measurements that narrow it", headings, rows, left=("measure", "how"))
