"""The row of numbers at the top of a page, each with its change against a baseline."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from html import escape

import streamlit as st

from app.words import of_capacity
from dpsim.base.uncertainty import PredictionInterval
from dpsim.base.units import POWER, TIME, amount, human
from dpsim.engine import MemoryUse, Result
from dpsim.report.figures.style import rounded

_DIGITS = 3
_WIDE_RATIO = 2.0  # ratio of its ends above which an interval is called wide
_LEAST_CHANGE = 5e-4  # a smaller change would show as 0.0 %, and is not shown


@dataclass(frozen=True, slots=True)
class Number:
    """One number of the row: its name, its text and its value.

    ``value`` is None if it is unknown; ``less_is_better`` says which changes are good. ``note``
    is shown below it; ``filled`` is the share of a bar below it; ``interval`` is its prediction
    interval, drawn as a band. ``timed`` is the result whose step time it is proportional to.
    """

    name: str
    text: str
    value: float | None
    less_is_better: bool
    note: str
    filled: float | None = None
    interval: PredictionInterval | None = None
    timed: Result | None = None

    @property
    def within(self) -> str:
        """The interval in words; empty if there is none."""
        ends = () if self.interval is None else (self.interval.low, self.interval.high)
        return " to ".join(human(end, TIME, _DIGITS) for end in ends)

    def is_like(self, other: Number) -> bool:
        """Return whether random variation or the models' errors leave open which is larger.

        Errors that both share, of the same GPU or network, cancel.
        """
        if self.timed is None or other.timed is None or not self.value or not other.value:
            return False
        if abs(self.value / other.value - 1) <= _noise(self.timed) + _noise(other.timed):
            return True
        value, others = (
            each if self.less_is_better else 1 / each for each in (self.value, other.value)
        )
        return self.timed.indistinguishable_from(other.timed, value, others)


def numbers(result: Result) -> Iterator[Number]:
    """Yield step time, throughput, share of the GPUs' peak, memory and cost of a result."""
    yield _step_time(result)
    yield _rate(result)
    yield _mfu_number(result)
    yield of_memory(result.memory)
    yield _cost(result)


def _step_time(result: Result) -> Number:
    mean, interval = result.step_time_s["mean"], result.interval
    why = ""
    if interval is not None and interval.high > _WIDE_RATIO * interval.low:
        why = f"wide: {'; '.join(interval.extrapolated) or 'few measurements are like this'}"
    text = human(mean, TIME, _DIGITS)
    return Number("step time", text, mean, True, why, interval=interval, timed=result)


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
    return Number(name, rounded(rate), rate, False, efficiency, timed=result)


def _mfu_number(result: Result) -> Number:
    found = result.utilisation
    if found.mfu is None:
        return Number("MFU", "unknown", None, False, "this model's FLOP are not known")
    note = f"{amount(found.tflops_per_gpu or 0, 3)} TFLOP/s a GPU"
    if found.mfu > 1:
        note = f"{note}: more than its peak, so FLOP or measured times are not this model's"
    return Number("MFU", f"{found.mfu:.1%}", found.mfu, False, note, timed=result)


def headline(result: Result, base: Result | None) -> None:
    """Draw the numbers in a row, with the change from ``base``.

    Between two models, changes are neither good nor bad.
    """
    alike = base is None or base.job.model.name == result.job.model.name
    # By name, so that tokens are not compared with samples.
    before = {} if base is None else {number.name: number for number in numbers(base)}
    shown = "".join(_card(number, before.get(number.name), alike) for number in numbers(result))
    st.html(f'<dl class="dp-row">{shown}</dl>')


def by_rate(results: Mapping[str, Result]) -> dict[str, Result]:
    """Return the results by their throughput, the most first."""
    return dict(sorted(results.items(), key=lambda item: -item[1].throughput_samples_per_s))


def fastest(results: Mapping[str, Result]) -> str:
    """Return which of several is fastest, in samples per second, and by how much."""
    results = by_rate(results)
    best = {name: each.throughput_samples_per_s for name, each in results.items()}
    most = max(best.values())
    alike = [name for name, rate in best.items() if most / rate - 1 < _LEAST_CHANGE]
    *before, last = alike
    are = f"{', '.join(before)} and {last} are" if before else f"{last} is"
    text = f"{are} the fastest, {rounded(most)} samples/s"
    others = list(best.items())[len(alike) :]
    if not others:
        return text
    (second, next_best), (slowest, least) = others[0], others[-1]
    text += f": {most / next_best - 1:.1%} more than {second}"
    if _rate(results[last]).is_like(_rate(results[second])):
        text += " (within the noise)"
    return text if slowest == second else f"{text}, {most / least:.3g} times {slowest}"


def sentence(text: str) -> None:
    """Draw the verdict."""
    st.html(f'<p class="dp-verdict">{escape(text)}</p>')


def _card(number: Number, before: Number | None, alike: bool) -> str:
    bar = "" if number.interval is None else _band(number)
    if number.filled is not None:
        over = ' class="over"' if number.filled > 1 else ""
        bar = f'<div class="dp-bar"><i{over} style="width: {min(number.filled, 1):.1%}"></i></div>'
    note = f'<div class="dp-note">{escape(number.note)}</div>' if number.note else ""
    live = "" if number.interval is None else ' aria-live="polite"'  # only of the step time
    return (
        f'<div class="dp-number"{live}><dt>{escape(number.name)}</dt><dd>'
        f'<div class="dp-value">{escape(number.text)}</div>{bar}{note}'
        f"{change(number, before, alike)}</dd></div>"
    )


def _band(number: Number) -> str:
    """Return the interval of the step time, in words and as a band from 0 with a dot."""
    interval, point = number.interval, number.value
    assert interval is not None
    assert point is not None
    low, dot = interval.low / interval.high, point / interval.high
    return (
        f'<div class="dp-within">{number.within}</div>'
        f'<div class="dp-band"><i style="left: {low:.1%}"></i><b style="left: {dot:.1%}"></b></div>'
        f'<div class="dp-note">{interval.confidence:.0%} of measured steps lie within</div>'
    )


def change(number: Number, before: Number | None, alike: bool, since: str = " from {}") -> str:
    """Return the change from the baseline, in percent and with the baseline's text in ``since``.

    It is grey where the change is within the noise, or where the two are no alternatives.
    """
    if before is None or not before.value or number.value is None:
        return ""
    more = number.value / before.value - 1
    if abs(more) < _LEAST_CHANGE:
        return '<div class="dp-delta">no change</div>'
    text = f"{'▲' if more > 0 else '▼'} {more:+.1%}{since.format(escape(before.text))}"
    if number.is_like(before):
        return f'<div class="dp-delta">{text}, within the noise</div>'
    # More throughput is good, more time or cost is not.
    look = " good" if (more < 0) == number.less_is_better else " bad"
    return f'<div class="dp-delta{look if alike else ""}">{text}</div>'


def of_memory(use: MemoryUse | None) -> Number:
    """Return the memory that a GPU holds."""
    if use is None:
        return Number("memory of a GPU", "unknown", None, True, "this model's is not known")
    held = use.held.total
    text = of_capacity(held, use.capacity)
    note = f"largest batch that fits: {use.largest_batch:,}"
    if use.is_partial:
        note = "at least: activations are not known"
    return Number("memory of a GPU", text, held, True, note, held / use.capacity)


def _cost(result: Result) -> Number:
    """Return the cost of a billion tokens for text, of a million samples for other data.

    By the stated price, otherwise by the GPU's list price, with its source.
    """
    spending, energy, tokens = result.spending, result.energy, result.utilisation.tokens_per_s
    name = "cost / M samples" if tokens is None else "cost / B tokens"
    paid = spending.price(1e9 / tokens if tokens else 1e6 / result.throughput_samples_per_s)
    drawn = "" if energy is None else f", at most {human(energy.power_W, POWER, 3)}"
    if paid is None or spending.hourly is None:
        note = f"no list price: set one under Price and power{drawn}"
        return Number(name, "no price", None, True, note)

    hourly = f"{amount(spending.hourly, 4)} {spending.currency} an hour ({spending.price_source})"
    text = f"{rounded(paid)} {spending.currency}"
    return Number(name, text, paid, True, hourly + drawn, timed=result)
