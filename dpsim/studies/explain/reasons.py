"""Why turning a knob gains nothing, in words, from where the time of a step went before and after."""

from __future__ import annotations

from dpsim.base.units import TIME, human
from dpsim.engine import PARTS, Result
from dpsim.studies.explain.knob import Change, Knob

_LITTLE = 0.01  # of a step
_MINOR = 0.1
_SAME = 1e-6
_SHIFTED = 0.5  # of what one part saves, taken by another


def reason(knob: Knob, change: Change, before: Result, after: Result, instead: str | None) -> str:
    """Why ``after`` is no faster than ``before``.

    ``instead``: what else of the same part does help, if anything.
    """
    step = float(before.steps.step.mean())
    if change.factor is None and abs(float(after.steps.step.mean()) / step - 1) < _SAME:
        return (
            f"it comes to the same ({', '.join(after.traffic.algorithms)})"
            if after.traffic.algorithms
            else "it comes to the same"
        )
    moved = {part: after.parts_s[part] - before.parts_s[part] for part in PARTS}
    saves, takes = (
        min(PARTS, key=lambda part: moved[part]),
        max(PARTS, key=lambda part: moved[part]),
    )
    saved, taken = -moved[saves], moved[takes]
    if saved > _LITTLE * step / 2 and taken > _SHIFTED * saved:
        already = before.parts_s[takes] / step
        return (
            f"{PARTS[saves].words} saves {human(saved, TIME, 2)}, but {PARTS[takes].words}, already "
            f"{already:.0%} of a step, "
            f"takes {human(taken, TIME, 2)} more"
        )
    if taken > _LITTLE * step / 2:
        return f"{PARTS[takes].words} takes {human(taken, TIME, 2)} more"
    return _share(knob, before, step, instead)


def _share(knob: Knob, before: Result, step: float, instead: str | None) -> str:
    """How much of the step the knob could act on."""
    share = before.parts_s[knob.part] / step
    words = PARTS[knob.part].words
    if share < _LITTLE:
        return f"{words} is {f'only {share:.1%}' if share else 'no part'} of a step{_hidden(knob, before)}"
    other = f"; {instead} helps" if instead and instead != knob.title else ""
    largest = max(PARTS, key=lambda part: before.parts_s[part])
    if largest != knob.part and share < _MINOR:
        return f"{words} is {share:.0%} of a step, {PARTS[largest].words} already is {before.parts_s[largest] / step:.0%}{other}"
    return f"{words} is {share:.0%} of a step, but {knob.title} hardly changes it{other}"


def _hidden(knob: Knob, before: Result) -> str:
    if knob.part != "exposed_comm" or before.overlapped_comm_s <= 0:
        return ""
    return (
        f": {human(before.overlapped_comm_s, TIME, 2)} of communication run hidden beside computing"
    )
