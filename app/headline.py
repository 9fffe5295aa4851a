"""The row of numbers at the top of a page, each with its change against a baseline."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from html import escape

import streamlit as st

from dpsim.base.units import DATA, POWER, TIME, human
from dpsim.engine import Result
from dpsim.report.figures.style import per_second
from dpsim.report.text.tables import amount

_SAME = 5e-4  # a change of less is none: it would show as 0.0 %


@dataclass(frozen=True, slots=True)
class Number:
    """One number of the row: what it is called, and what it is, in words and as a number.

    ``value`` is None where it is not known, ``less_is_better`` says which changes are good.
    ``note`` stands below it; ``filled`` is the share of a bar below it.
    """

    name: str
    text: str
    value: float | None
    less_is_better: bool
    note: str
    filled: float | None = None


def numbers(result: Result) -> Iterator[Number]:
    """Step time, throughput, what it takes of the GPUs' peak, memory and cost of a result."""
    step, interval = result.step_time_s, result.interval
    within = "" if interval is None else _within(interval.low, interval.high, interval.confidence)
    yield Number("step time", human(step["mean"], TIME, 4), step["mean"], True, within)
    yield _rate(result)
    yield _of_peak(result)
    yield _memory(result)
    yield _cost(result)


def _within(low: float, high: float, confidence: float) -> str:
    return f"{human(low, TIME, 3)} to {human(high, TIME, 3)} ({confidence:.0%})"


def _rate(result: Result) -> Number:
    """Tokens per second of text, samples per second of all else."""
    found = result.utilisation
    efficiency = f"scaling efficiency {result.scaling_efficiency:.1%}"
    name, rate = "tokens / s", found.tokens_per_s
    if rate is None:
        name, rate = "samples / s", result.throughput_samples_per_s
    return Number(name, per_second(rate), rate, False, efficiency)


def _of_peak(result: Result) -> Number:
    found = result.utilisation
    if found.mfu is None:
        return Number("MFU", "unknown", None, False, "this model's FLOP are not known")
    note = f"{amount(found.tflops_per_gpu or 0)} TFLOP/s a GPU"
    return Number("MFU", f"{found.mfu:.1%}", found.mfu, False, note)


def of_text(results: Iterable[Result]) -> dict[str, list[str]]:
    """Columns of tokens per second and MFU, where any of the results is of text."""
    found = [result.utilisation for result in results]
    if all(each.tokens_per_s is None for each in found):
        return {}
    return {
        "tokens/s": [
            "" if each.tokens_per_s is None else per_second(each.tokens_per_s) for each in found
        ],
        "MFU": ["" if each.mfu is None else f"{each.mfu:.1%}" for each in found],
    }


def headline(result: Result, base: Result | None) -> None:
    """Draw them in a row."""
    # By name, so that tokens of one are not compared with samples of another.
    before = {} if base is None else {number.name: number for number in numbers(base)}
    shown = "".join(_card(number, before.get(number.name)) for number in numbers(result))
    st.html(f'<dl class="dp-row">{shown}</dl>')


def sentence(text: str) -> None:
    """Draw the verdict."""
    st.html(f'<p class="dp-verdict">{escape(text)}</p>')


def _card(number: Number, before: Number | None) -> str:
    bar = ""
    if number.filled is not None:
        over = ' class="over"' if number.filled > 1 else ""
        bar = f'<div class="dp-bar"><i{over} style="width: {min(number.filled, 1):.1%}"></i></div>'
    note = f'<div class="dp-note">{escape(number.note)}</div>' if number.note else ""
    return (
        f'<div class="dp-number"><dt>{escape(number.name)}</dt><dd>'
        f'<div class="dp-value">{escape(number.text)}</div>{bar}{note}'
        f"{_delta(number, before)}</dd></div>"
    )


def _delta(number: Number, before: Number | None) -> str:
    """The change since the baseline, in percent and by its words."""
    if before is None or not before.value or number.value is None:
        return ""
    change = number.value / before.value - 1
    if abs(change) < _SAME:
        return '<div class="dp-delta">no change</div>'
    # More throughput is good, more time or cost is not.
    look = "good" if (change < 0) == number.less_is_better else "bad"
    arrow = "▲" if change > 0 else "▼"
    return f'<div class="dp-delta {look}">{arrow} {change:+.1%} from {escape(before.text)}</div>'


def _memory(result: Result) -> Number:
    use = result.memory
    if use is None:
        return Number("memory of a GPU", "unknown", None, True, "this model's is not known")
    held = use.held.total
    # Without a unit of its own: the capacity beside it has one, which is GB for every GPU.
    text = f"{held / 1e9:.3g} of {human(use.capacity, DATA, 3)}"
    note = f"largest batch that fits: {use.largest_batch:,}"
    return Number("memory of a GPU", text, held, True, note, held / use.capacity)


def _cost(result: Result) -> Number:
    """Of a billion tokens of text, of a million samples of all else."""
    cost, energy = result.cost, result.energy
    is_of_text = result.utilisation.tokens_per_s is not None
    name = "cost / B tokens" if is_of_text else "cost / M samples"
    drawn = "" if energy is None else f"at most {human(energy.power_W, POWER, 3)}"
    if cost is None:
        return Number(name, "no price", None, True, _noted("set one under Price and power", drawn))

    tokens = cost.per_million_tokens
    paid = cost.per_million_samples if tokens is None else tokens * 1e3
    hour = f"{amount(cost.per_hour, 4)} {cost.currency} an hour"
    return Number(name, f"{amount(paid, 4)} {cost.currency}", paid, True, _noted(hour, drawn))


def _noted(first: str, second: str) -> str:
    return f"{first}, {second}" if second else first
