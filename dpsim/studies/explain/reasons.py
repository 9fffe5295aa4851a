"""Explain in words why a knob gains nothing, by the parts of the step before and after."""

from __future__ import annotations

from dpsim.base.units import TIME, human
from dpsim.engine import PARTS, Result
from dpsim.studies.explain.knob import Change, Knob

_LEAST_PART = 0.01  # share of a step below which a part is negligible
_LEAST_CHANGE = 0.005  # share of a step below which a part's change is negligible
_MINOR = 0.1  # share of a step below which the largest part is named instead
_ROUNDING = 1e-6  # share of a step below which a change may be rounding
_SHIFTED_SHARE = 0.5  # least share of one part's saving that another must take to count as shifted


def reason(
    knob: Knob, change: Change, before: Result, after: Result, better_knob: str | None
) -> str:
    """Explain why ``after`` is no faster than ``before``.

    ``better_knob`` is another knob that shortens the same part, if any.
    """
    step = before.mean_step
    step_after = after.mean_step
    # A knob without a factor makes a choice, which may be the present one.
    if change.factor is None and abs(step_after / step - 1) < _ROUNDING:
        return _same_step(after)
    shifted = _shift(before, after, step)
    if shifted is not None:
        return shifted
    return _share(knob, before, step, better_knob)


def _same_step(after: Result) -> str:
    algorithms = ", ".join(after.traffic.algorithms)
    return f"the step stays the same ({algorithms})" if algorithms else "the step stays the same"


def _shift(before: Result, after: Result, step: float) -> str | None:
    """Say which part grows, and which shrinks in return if one does; None if none grows."""
    moved = {part: after.parts_s[part] - before.parts_s[part] for part in PARTS}
    saves = min(PARTS, key=lambda part: moved[part])
    takes = max(PARTS, key=lambda part: moved[part])
    saved = -moved[saves]
    taken = moved[takes]
    least = _LEAST_CHANGE * step
    more = f"takes {human(taken, TIME, 2)} more"
    if saved > least and taken > _SHIFTED_SHARE * saved:
        already = before.parts_s[takes] / step
        return (
            f"{PARTS[saves].words} saves {human(saved, TIME, 2)}, "
            f"but {PARTS[takes].words}, already {already:.0%} of a step, {more}"
        )
    return f"{PARTS[takes].words} {more}" if taken > least else None


def _share(knob: Knob, before: Result, step: float, better_knob: str | None) -> str:
    """Return how much of the step the knob could act on."""
    share = before.parts_s[knob.part] / step
    part = PARTS[knob.part].words
    if share < _LEAST_PART:
        amount = f"only {share:.1%}" if share else "no part"
        return f"{part} is {amount} of a step{_overlap_note(knob, before)}"
    other = (
        f"; the knob that shortens it is {better_knob}"
        if better_knob and better_knob != knob.title
        else ""
    )
    largest = max(PARTS, key=lambda part: before.parts_s[part])
    if largest != knob.part and share < _MINOR:
        most = f"{PARTS[largest].words} already is {before.parts_s[largest] / step:.0%}"
        return f"{part} is {share:.0%} of a step, {most}{other}"
    return f"{part} is {share:.0%} of a step, but hardly depends on {knob.title}{other}"


def _overlap_note(knob: Knob, before: Result) -> str:
    """Return how much communication is overlapped, for a knob of communication."""
    if knob.part != "exposed_comm" or before.overlapped_comm_s <= 0:
        return ""
    overlapped = human(before.overlapped_comm_s, TIME, 2)
    return f": {overlapped} of communication overlap with computing"
