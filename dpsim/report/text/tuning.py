"""The results of a search, as tables and lines for a terminal."""

from __future__ import annotations

from collections.abc import Iterable

from rich.table import Table

from dpsim.base.terminal import table
from dpsim.base.units import TIME, amount, human
from dpsim.engine import PARTS
from dpsim.report.text.tables import total_cells
from dpsim.studies.tune import Evaluation, Reason, Refused, Tuning

_MOST_FRONT = 12
_MOST_REASONS = 8
_MATTERS = 0.005  # smaller changes are not shown


def tuning_table(tuning: Tuning) -> Table:
    """Return the file's own configuration and the best ones side by side.

    Rows are the values that they set, and their figures.
    """
    columns = {"as the file is": tuning.baseline}
    if tuning.exact is not None:
        columns["best with the same updates"] = tuning.exact
    if tuning.exact is not tuning.best:
        columns["best that changes them"] = tuning.best

    # A dict keeps each path once, in the order of the search.
    paths: dict[str, None] = {}
    for each in columns.values():
        if isinstance(each, Evaluation):
            paths.update(dict.fromkeys(each.values))
    rows = [(path, *(_value(each, path, tuning) for each in columns.values())) for path in paths]

    figures = [_figures(each, tuning) for each in columns.values()]
    # Take the headings from the last column with figures; the first, the file's own
    # configuration, may be refused and have none.
    for heading in next(each for each in reversed(figures) if each):
        rows.append((heading, *(each.get(heading, "") for each in figures)))
    title = f"{tuning.best.scenario.name}: {tuning.objective.title}"
    return table(title, ("", *columns), rows, left=("",))


def _value(each: Evaluation | Refused, path: str, tuning: Tuning) -> str:
    if each is tuning.baseline:
        return ""
    return str(each.values.get(path, "-"))


def _figures(each: Evaluation | Refused, tuning: Tuning) -> dict[str, str]:
    """Return the figures by heading; none of an impossible configuration."""
    if isinstance(each, Refused):
        return {}
    span = tuning.span
    gain = tuning.gain_of(each)
    utilisation = each.result.utilisation
    tokens: dict[str, str] = {}
    if utilisation.tokens_per_s is not None:
        mfu = "" if utilisation.mfu is None else f"{utilisation.mfu:.1%}"
        tokens = {"tokens": f"{amount(utilisation.tokens_per_s)} tokens/s", "MFU": mfu}
    spans = {
        f"time {span}": human(each.time_s, TIME),
        f"cost {span}": f"{amount(each.cost, 4)} {tuning.unit}",
    }
    return {
        "step": human(each.result.step_time_s["mean"], TIME),
        "throughput": f"{amount(each.result.throughput_samples_per_s)} samples/s",
        **tokens,
        **(spans if each.result.total is None else total_cells(each.result.total)),
        f"change of {tuning.objective.title}": ""
        if gain is None or each is tuning.baseline
        else f"{gain:+.1%}",
    }


def front_table(tuning: Tuning) -> Table:
    """Return the front of time against cost, the fastest first.

    Each row has the values that differ from the fastest.
    """
    span = tuning.span
    rows = (
        (human(each.time_s, TIME), amount(each.cost, 4), _settings(each))
        for each in tuning.front[:_MOST_FRONT]
    )
    headings = (f"time {span}", f"cost ({tuning.unit})", "with")
    title = "Pareto front: nothing tried is both faster and cheaper"
    return table(title, headings, rows, left=("with",))


def _settings(each: Evaluation) -> str:
    return ", ".join(
        f"{path.removeprefix('strategy.').removesuffix('.kind')} {value}"
        for path, value in each.values.items()
    )


def _reasons(which: str, reasons: Iterable[Reason]) -> list[str]:
    """Return the effect of each important value of a best configuration."""
    return [
        f"why         {which}: the file's {each.path} instead of {each.value} costs "
        f"{each.loss:+.1%}, most of it {PARTS[each.part].words}"
        for each in reasons
        if abs(each.loss) >= _MATTERS
    ]


def tuning_notes(tuning: Tuning) -> list[str]:
    """Return the size of the search, the impossible configurations by reason, and remarks.

    A line each.
    """
    sampled = "until the time limit" if tuning.partial else "sampled"
    how = "all" if tuning.exhaustive else sampled
    lines = [
        f"searched    {tuning.simulated:,} simulated of {tuning.space.size:,} configurations "
        f"({how}), seed {tuning.seed}"
    ]
    lines += [f"left out    {count:,} x {why}" for why, count, _ in tuning.reasons[:_MOST_REASONS]]
    more = sum(count for _, count, _ in tuning.reasons[_MOST_REASONS:])
    lines += [f"left out    {more:,} for other reasons"] if more else []
    lines += _reasons("same updates", tuning.why_exact)
    if tuning.exact is not tuning.best:
        lines += _reasons("changed ones", tuning.why)
        lines += [f"changes     {each}" for each in tuning.best.changes_updates]
    return [*lines, *(f"note        {note}" for note in tuning.notes)]
