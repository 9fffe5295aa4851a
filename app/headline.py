"""The numbers at the top of a page, each with its change against a baseline."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Literal

import streamlit as st

from dpsim.base.units import DATA, POWER, TIME, human
from dpsim.engine import Result

_WIDTH, _HEIGHT = 155, 120  # pixels; as many stand side by side as there is room for
_SAME = "no change"


@dataclass(frozen=True, slots=True)
class Number:
    """One number.

    Its name, as text and as a number (None where there is none), and whether less of it is better.
    """

    name: str
    text: str
    value: float | None
    less_is_better: bool
    help: str


def numbers(result: Result) -> Iterator[Number]:
    """Step time, throughput, efficiency, memory, cost and power of a result."""
    step = result.step_time_s
    bounds = f"{human(step['low'], TIME, 4)} to {human(step['high'], TIME, 4)}"
    yield Number(
        "step time",
        human(step["mean"], TIME, 4),
        step["mean"],
        True,
        f"Mean; 95 % interval {bounds}.",
    )
    rate = result.throughput_samples_per_s
    yield Number("samples / s", per_second(rate), rate, False, "Throughput of all workers.")
    yield from _of_text(result)
    efficiency = result.scaling_efficiency
    yield Number(
        "scaling efficiency",
        f"{efficiency:.1%}",
        efficiency,
        False,
        "Throughput over that of as many workers on their own.",
    )
    yield _memory(result)
    yield _cost(result)
    energy = result.energy
    if energy is not None:
        yield Number(
            "power",
            human(energy.power_W, POWER, 3),
            energy.power_W,
            True,
            f"Of all machines, at most: {energy.source}.",
        )


def _of_text(result: Result) -> Iterator[Number]:
    """Tokens per second and their share of the peak, of language models."""
    found = result.utilisation
    if found.tokens_per_s is None or found.tokens_per_s_per_gpu is None:
        return
    each = per_second(found.tokens_per_s_per_gpu)
    rate = per_second(found.tokens_per_s)
    yield Number("tokens / s", rate, found.tokens_per_s, False, f"Of all workers; {each} a GPU.")
    if found.mfu is not None and found.hfu is not None:
        about = (
            f"What the model's FLOP take of the GPUs' peak; with what checkpointing computes "
            f"again {found.hfu:.1%} (HFU). {found.tflops_per_gpu:,.3g} TFLOP/s a GPU."
        )
        yield Number("MFU", f"{found.mfu:.1%}", found.mfu, False, about)


def per_second(rate: float) -> str:
    """A rate of samples, with four digits or all of them."""
    return f"{rate:,.4g}" if rate < 1e4 else f"{rate:,.0f}"


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
    before = {} if base is None else {number.name: number.value for number in numbers(base)}
    found = list(numbers(result))
    with st.container(horizontal=True, gap="small"):
        for number in found:
            change = _change(number.value, before.get(number.name))
            colour: Literal["off", "inverse", "normal"] = "normal"
            if change == _SAME:
                colour = "off"
            elif number.less_is_better:
                colour = "inverse"
            st.metric(
                number.name,
                number.text,
                delta=change,
                delta_color=colour,
                delta_arrow="off" if change == _SAME else "auto",
                help=number.help,
                border=True,
                width=_WIDTH,
                height=_HEIGHT if before else "content",
            )


def _change(value: float | None, before: float | None) -> str | None:
    """The change in percent, None where there is nothing to compare with."""
    if value is None or not before:
        return None
    return _SAME if value == before else f"{value / before - 1:+.1%}"


def _memory(result: Result) -> Number:
    use = result.memory
    if use is None:
        return Number("memory", "unknown", None, True, "This model's memory is not known.")
    share = use.held.total / use.capacity
    about = (
        f"{share:.0%} of the {human(use.capacity, DATA, 3)} of {use.gpu}; "
        f"the largest batch that fits: {use.largest_batch:,}."
    )
    return Number("memory per GPU", human(use.held.total, DATA, 3), use.held.total, True, about)


def _cost(result: Result) -> Number:
    cost = result.cost
    if cost is None:
        return Number(
            "cost / M samples",
            "no price",
            None,
            True,
            "Set a price per GPU and hour at the side, under Price and power.",
        )
    text = f"{cost.per_million_samples:,.4g} {cost.currency}"
    return Number(
        "cost / M samples",
        text,
        cost.per_million_samples,
        True,
        f"{cost.per_hour:,.4g} {cost.currency} an hour.",
    )
