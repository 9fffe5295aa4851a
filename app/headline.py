"""The row of numbers at the top of a page, each with its change against a baseline."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from html import escape

import streamlit as st

from app.words import of_capacity
from dpsim.base.doubt import PredictionInterval
from dpsim.base.units import POWER, TIME, human
from dpsim.engine import Result
from dpsim.report.figures.style import per_second
from dpsim.report.text.tables import amount

_DIGITS = 3
_WIDE = 2.0  # ratio of its ends above which an interval is called wide
_SAME = 5e-4  # a smaller change would show as 0.0 %, and is not shown


@dataclass(frozen=True, slots=True)
class Number:
    """One number of the row: its name, its text and its value.

    ``value`` is None where it is unknown; ``less_is_better`` says which changes are good. ``note``
    is shown below it; ``filled`` is the share of a bar below it; ``interval`` is its prediction
    interval, drawn as a band. ``noise`` is its relative random variation.
    """

    name: str
    text: str
    value: float | None
    less_is_better: bool
    note: str
    filled: float | None = None
    interval: PredictionInterval | None = None
    noise: float = 0.0


def numbers(result: Result) -> Iterator[Number]:
    """Yield step time, throughput, share of the GPUs' peak, memory and cost of a result."""
    yield _step_time(result)
    yield _rate(result)
    yield _of_peak(result)
    yield _memory(result)
    yield _cost(result)


def _step_time(result: Result) -> Number:
    mean, interval = result.step_time_s["mean"], result.interval
    why = ""
    if interval is not None and interval.high > _WIDE * interval.low:
        why = "; ".join(interval.extrapolated) or "few measurements are like this"
        why = f"wide: {why}"
    text, noise = human(mean, TIME, _DIGITS), _noise(result)
    return Number("step time", text, mean, True, why, interval=interval, noise=noise)


def _rounded(number: float) -> str:
    """Return the number with its significant digits."""
    return amount(float(f"{number:.{_DIGITS}g}"), _DIGITS)


def _noise(result: Result) -> float:
    """Return the relative variation of the mean step between seeds."""
    step = result.step_time_s
    return float((step["high"] - step["low"]) / 2 / step["mean"])


def _rate(result: Result) -> Number:
    """Return tokens per second for text, samples per second for other data."""
    found = result.utilisation
    efficiency = f"scaling efficiency {result.scaling_efficiency:.0%}"
    name, rate = "tokens / s", found.tokens_per_s
    if rate is None:
        name, rate = "samples / s", result.throughput_samples_per_s
    return Number(name, _rounded(rate), rate, False, efficiency, noise=_noise(result))


def _of_peak(result: Result) -> Number:
    found = result.utilisation
    if found.mfu is None:
        return Number("MFU", "unknown", None, False, "this model's FLOP are not known")
    note = f"{amount(found.tflops_per_gpu or 0, 3)} TFLOP/s a GPU"
    if found.mfu > 1:
        note = f"{note}: more than its peak, so FLOP or measured times are not this model's"
    return Number("MFU", f"{found.mfu:.1%}", found.mfu, False, note, noise=_noise(result))


def of_text(results: Iterable[Result]) -> dict[str, list[str]]:
    """Return columns of tokens per second and MFU, if any of the results is of text."""
    found = [result.utilisation for result in results]
    if all(each.tokens_per_s is None for each in found):
        return {}
    return {
        "tokens/s": [
            "" if each.tokens_per_s is None else per_second(each.tokens_per_s) for each in found
        ],
        "MFU": ["" if each.mfu is None else f"{each.mfu:.1%}" for each in found],
    }


def headline(result: Result, base: Result | None, *, alike: bool = True) -> None:
    """Draw the numbers in a row, with the change from ``base``.

    Unless the two are ``alike``, changes are neither good nor bad.
    """
    # By name, so that tokens are not compared with samples.
    before = {} if base is None else {number.name: number for number in numbers(base)}
    shown = "".join(_card(number, before.get(number.name), alike) for number in numbers(result))
    st.html(f'<dl class="dp-row">{shown}</dl>')


def sentence(text: str) -> None:
    """Draw the verdict."""
    st.html(f'<p class="dp-verdict">{escape(text)}</p>')


def _card(number: Number, before: Number | None, alike: bool) -> str:
    bar = "" if number.interval is None else _band(number)
    if number.filled is not None:
        over = ' class="over"' if number.filled > 1 else ""
        bar = f'<div class="dp-bar"><i{over} style="width: {min(number.filled, 1):.1%}"></i></div>'
    note = f'<div class="dp-note">{escape(number.note)}</div>' if number.note else ""
    return (
        f'<div class="dp-number"><dt>{escape(number.name)}</dt><dd>'
        f'<div class="dp-value">{escape(number.text)}</div>{bar}{note}'
        f"{_delta(number, before, alike)}</dd></div>"
    )


def _band(number: Number) -> str:
    """Return the interval of the step time, in words and as a band from 0 with a dot."""
    interval, point = number.interval, number.value
    assert interval is not None
    assert point is not None
    low, dot = interval.low / interval.high, point / interval.high
    within = f"{human(interval.low, TIME, _DIGITS)} to {human(interval.high, TIME, _DIGITS)}"
    return (
        f'<div class="dp-within">{within}</div>'
        f'<div class="dp-band"><i style="left: {low:.1%}"></i><b style="left: {dot:.1%}"></b></div>'
        f'<div class="dp-note">{interval.confidence:.0%} of measured steps lie within</div>'
    )


def _delta(number: Number, before: Number | None, alike: bool) -> str:
    """Return the change from the baseline, in percent and with the baseline's text.

    It is grey where the change is within the noise, or where the two are no alternatives.
    """
    if before is None or not before.value or number.value is None:
        return ""
    change = number.value / before.value - 1
    if abs(change) < _SAME:
        return '<div class="dp-delta">no change</div>'
    arrow = "▲" if change > 0 else "▼"
    said = f"{arrow} {change:+.1%} from {escape(before.text)}"
    if abs(change) <= number.noise + before.noise:
        return f'<div class="dp-delta">{said}, within the noise</div>'
    # More throughput is good, more time or cost is not.
    look = " good" if (change < 0) == number.less_is_better else " bad"
    return f'<div class="dp-delta{look if alike else ""}">{said}</div>'


def _memory(result: Result) -> Number:
    use = result.memory
    if use is None:
        return Number("memory of a GPU", "unknown", None, True, "this model's is not known")
    held = use.held.total
    text = of_capacity(held, use.capacity)
    note = f"largest batch that fits: {use.largest_batch:,}"
    return Number("memory of a GPU", text, held, True, note, held / use.capacity)


def _cost(result: Result) -> Number:
    """Return the cost of a billion tokens for text, of a million samples for other data."""
    cost, energy = result.cost, result.energy
    is_of_text = result.utilisation.tokens_per_s is not None
    name = "cost / B tokens" if is_of_text else "cost / M samples"
    drawn = "" if energy is None else f"at most {human(energy.power_W, POWER, 3)}"
    if cost is None:
        return Number(name, "no price", None, True, _noted("set one under Price and power", drawn))

    tokens = cost.per_million_tokens
    paid = cost.per_million_samples if tokens is None else tokens * 1e3
    hour = f"{amount(cost.per_hour, 4)} {cost.currency} an hour"
    text, note = f"{_rounded(paid)} {cost.currency}", _noted(hour, drawn)
    return Number(name, text, paid, True, note, noise=_noise(result))


def _noted(first: str, second: str) -> str:
    return f"{first}, {second}" if second else first
