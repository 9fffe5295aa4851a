"""Results as tables for a terminal."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any

from rich.table import Table

from dpsim.base.terminal import table
from dpsim.base.units import DATA, POWER, RATE, TIME, amount, human, plural, size
from dpsim.engine import (
    PARTS,
    Cost,
    Energy,
    LinkLoads,
    Result,
    TimeToTarget,
    Total,
    Training,
    Utilisation,
    in_simpy,
)
from dpsim.network.libraries import name_for_users
from dpsim.report.text.memory import sample_notes, total_of_capacity
from dpsim.report.text.model_error import trust_notes, within

_DIGITS = 6
_ROUNDING = 1e-6


def run_table(result: Result) -> Table:
    """Return the parts of a step's time, and its interval."""
    step, parts, interval = result.step_time_s, result.parts_s, result.interval
    title = f"{result.name}: a step takes {human(step['mean'], TIME, 3)}"
    # An interval without a width, as of a single traced step, means that no error is known.
    if interval is not None and interval.width > 1 + _ROUNDING:
        title += f", 90% interval {within(interval.low, interval.high)}"
    # Leave out rows of zeros, because most scenarios lack some parts, such as waiting for input.
    rows = (
        (PARTS[part].title, human(seconds, TIME, 3), f"{seconds / step['mean']:.1%}")
        for part, seconds in parts.items()
        if seconds > 0
    )
    return table(title, ("part of the step", "time", "share"), rows, left=("part of the step",))


def run_notes(result: Result) -> list[str]:
    """Return the other figures of a result, a line each."""
    step, traffic = result.step_time_s, result.traffic
    samples_per_s, efficiency = result.throughput_samples_per_s, result.scaling_efficiency
    hidden, bytes_per_sample = result.overlapped_comm_s, result.bytes_per_sample
    warnings, interval, cost = result.warnings, result.interval, result.cost
    utilisation = result.utilisation
    lines = [
        f"step        median {human(step['median'], TIME)}, 95th percentile "
        f"{human(step['p95'], TIME)}, "
        f"mean within {human(step['low'], TIME)} to {human(step['high'], TIME)} over seeds (95 %)",
        *([] if interval is None else trust_notes(interval)),
        f"throughput  {amount(samples_per_s)} samples/s on {result.workers} workers, "
        f"scaling efficiency {efficiency:.1%}",
        *_utilisation_notes(utilisation),
        f"overlapped  {human(hidden, TIME, 3)} of communication",
        f"traffic     {human(traffic.sent_by_busiest, DATA, 3)} sent per step by the busiest "
        f"worker, {human(bytes_per_sample, DATA, 3)} per sample"
        + (f", by {', '.join(traffic.algorithms)}" if traffic.algorithms else ""),
        *(
            f"library     {name_for_users(each.library, result.job.cluster).lower()} ({each.why})"
            for each in result.libraries
        ),
        *_software_notes(result.software),
    ]

    if traffic.busiest_link:
        lines.append(
            f"busiest     {traffic.busiest_link}, {traffic.busiest_link_utilisation:.0%} of its "
            "rate over the step"
        )

    lines.append(_engine_note(result))
    lines += [f"warning     {warning}" for warning in warnings]
    lines += _resource_notes(result)
    lines += [] if result.to_target is None else to_target_notes(result.to_target)
    lines += [] if cost is None else _spending_notes(cost, result.energy)
    lines += [] if result.total is None else _total_notes(result, result.total)
    return [*lines, f"calibration {calibration_note(result.calibration)}"]


_OF_SAMPLE = ("sample", "sequence_length", "assumed")


def _software_notes(words: dict[str, Any] | None) -> list[str]:
    """Return the software in use, and which of it is assumed."""
    if words is None:
        return []
    words_in_use = ", ".join(
        f"{value} cluster" if name == "cluster" else value
        for name, value in words.items()
        if name not in _OF_SAMPLE
    )
    assumed = ", ".join(word for word in words["assumed"] if word not in _OF_SAMPLE)
    software = f"software    {words_in_use}" + (f" (assumed: {assumed})" if assumed else "")
    of_sample = [word for word in words["assumed"] if word in _OF_SAMPLE]
    return [*sample_notes({**words, "assumed": of_sample}), software]


def _utilisation_notes(rates: Utilisation) -> list[str]:
    """Return tokens per second and shares of the peak, if they are known."""
    lines = []
    if rates.tokens_per_s is not None:
        lines.append(
            f"tokens      {amount(rates.tokens_per_s)} tokens/s, "
            f"{amount(rates.tokens_per_s_per_gpu or 0)} per GPU"
        )
    if rates.mfu is not None:
        saved = f", Winograd saves {rates.saved_flop:.0%} of the FLOP" if rates.saved_flop else ""
        lines.append(
            f"of peak     MFU {rates.mfu:.1%}, HFU {rates.hfu:.1%}, "
            f"{amount(rates.tflops_per_gpu or 0)} TFLOP/s per GPU{saved}"
        )
    return lines


def rate_cells(result: Result, *, tokens: bool) -> dict[str, str]:
    """Return a result's throughput in table cells by heading; with ``tokens`` of text too."""
    cells = {"samples/s": amount(result.throughput_samples_per_s)}
    rates = result.utilisation
    if tokens:
        cells["tokens/s"] = "" if rates.tokens_per_s is None else amount(rates.tokens_per_s)
        cells["MFU"] = "" if rates.mfu is None else f"{rates.mfu:.1%}"
    return cells


def _engine_note(result: Result) -> str:
    """Return the engine, its approximation, and the parts that were simulated in SimPy."""
    engine = result.engine
    if result.approximation is not None:
        engine += f", an approximation: {result.approximation}"
    elif engine == "vector":
        engine += ", equal to the event engine within 1e-9 by test"
    simulated = in_simpy(result.job, result.engine)
    return f"engine      {engine}" + (
        "" if simulated == "nothing" else f"; SimPy simulated {simulated}"
    )


def calibration_note(calibration: str | dict[str, Any]) -> str:
    """Return the calibration of a prediction, and its error if it is known."""
    if isinstance(calibration, str):
        # A sweep's rows only have the calibration's name.
        source = {
            "profile": ": compute times as measured in the model's profile",
            "catalogue": ": compute times from the catalogue's figures, not measured",
        }
        return f"{calibration}{source.get(calibration, '')}"
    # Profiles have residuals; other calibrations are one measured step, or a factor.
    if "residuals" in calibration:
        errors, what = calibration["residuals"], calibration.get("residuals_of", "times")
        return (
            f"{calibration['name']}: {what} as measured, off by "
            f"{errors['mean_ape']:.1%} on average, {errors['worst_ape']:.1%} at worst, over "
            f"{errors['n']} {errors['counted_on']}; compute times from the {calibration['compute']}"
        )
    scaled = f"compute times x {calibration['compute_scale']:.3f}"
    if "step_time" not in calibration:
        return f"{scaled} ({calibration['source']})"
    if "cell" in calibration:
        cell = f"a cell of {calibration['cell']} GPUs"
        step = human(calibration["step_time"], TIME)
        return f"a measured step of {cell}: {step} ({calibration['source']})"
    nodes = plural(calibration["nodes"], "node")
    measured = human(calibration["step_time"], TIME)
    return f"{scaled}, from a measured step of {measured} on {nodes} ({calibration['source']})"


def _resource_notes(result: Result) -> list[str]:
    """Return the memory and link loads of steps, if there is something to report.

    Memory, input, epoch, crashes and learners.
    """
    lines = []
    if result.memory:
        verdict = "" if result.memory.fits else ": does not fit, simulated anyway"
        lines.append(f"memory      {total_of_capacity(result.memory)}{verdict}")
    if result.pipeline:
        bound = "the step is input-bound" if result.input_bound else "overlapped with the step"
        lines.append(f"input       {bound}; its slowest stage is {result.pipeline.slowest_stage()}")
    if result.epoch and result.epoch_time_s is not None:
        epoch = result.epoch
        lines.append(
            f"epoch       {epoch.steps:,} steps, {human(result.epoch_time_s, TIME)}: "
            f"{epoch.distinct:,} samples, {epoch.repeated:,} repeated, {epoch.dropped:,} left out"
        )
    if result.goodput:
        lost = 1 - result.goodput.useful
        lines.append(
            f"crashes     {result.goodput.useful:.1%} of the time is useful, {lost:.1%} goes into "
            "checkpoints and restarts"
        )
    if result.learners:
        best = ", ".join(f"{row.best} at batch {row.batch}" for row in result.learners)
        lines.append(f"learners    best per GPU: {best}")
    return lines


def _spending_notes(cost: Cost, energy: Energy | None) -> list[str]:
    """Return cost and energy."""
    target = "" if cost.to_target is None else f", {amount(cost.to_target, 4)} to the target"
    tokens = cost.per_million_tokens
    of_text = "" if tokens is None else f", {amount(tokens)} per million tokens"
    lines = [
        f"cost        {amount(cost.per_hour, 4)} {cost.currency} an hour, "
        f"{amount(cost.per_million_samples, 4)} per million samples{of_text}{target}"
    ]
    if energy is not None:
        target = (
            ""
            if energy.to_target_J is None
            else f", {amount(energy.to_target_J / 3.6e6, 4)} kWh to the target"
        )
        lines.append(
            f"energy      {human(energy.power_W, POWER)}, {amount(energy.per_sample_J)} J per "
            f"sample{target} ({energy.source})"
        )
    return lines


def _total_notes(result: Result, total: Total) -> list[str]:
    """Return the totals of the training amount in the scenario."""
    batch, tokens = result.job.scenario.global_batch, result.job.model.tokens
    text = f" ({amount(batch * tokens)} tokens)" if tokens else ""
    price = "not known: this GPU has no list price, so state cost.price_per_gpu_hour"
    if total.price is not None and total.price_per_gpu_hour is not None:
        price = (
            f"{amount(total.price, 4)} {total.currency}, at "
            f"{total.price_per_gpu_hour:.4g} per GPU hour ({total.price_source})"
        )
    energy = "" if total.energy_kwh is None else f", {amount(total.energy_kwh, 4)} kWh"
    return [
        f"total       {amount(total.samples, 4)} samples, in {amount(total.samples / batch, 4)} "
        f"steps of {batch:,}{text}, take {human(total.time_s, TIME)}, "
        f"{amount(total.gpu_hours, 4)} GPU hours{energy}",
        f"price       {price}",
    ]


def total_cells(total: Total | None) -> dict[str, str]:
    """Return a total in table cells by heading; empty cells without one."""
    if total is None:
        return dict.fromkeys(("total time", "GPU hours", "price", "kWh"), "")
    price = "" if total.price is None else f"{amount(total.price, 4)} {total.currency}"
    return {
        "total time": human(total.time_s, TIME),
        "GPU hours": amount(total.gpu_hours, 4),
        "price": price,
        "kWh": "" if total.energy_kwh is None else amount(total.energy_kwh, 4),
    }


def headings(paths: Iterable[str]) -> list[str]:
    """Return a heading for each path: its last word, without "kind"; two words if ambiguous."""
    words = [path.split(".") for path in paths]
    words = [
        # "kind" alone does not say which kind.
        each[:-1] if len(each) > 1 and each[-1] in ("kind", "fabric") else each
        for each in words
    ]
    last = Counter(each[-1] for each in words)
    return [each[-1] if last[each[-1]] == 1 else ".".join(each[-2:]) for each in words]


def cell(value: Any, name: str) -> str:
    """Return a value as text; amounts of data, recognised by the column's name, with their unit."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int | float) and ("bytes" in name or name.endswith("_size")):
        return size(value)
    if isinstance(value, float):
        return f"{value:.{_DIGITS}g}"
    return "" if value is None else str(value)


def links_table(name: str, loads: LinkLoads, links: list[dict[str, Any]]) -> Table:
    """Return the most used links."""
    title = f"{name}: links under {loads.what}, which takes {human(loads.time_s, TIME)}"
    rows = (
        (
            link["link"],
            human(link["rate_Bps"], RATE),
            human(link["bytes"], DATA),
            f"{link['utilisation']:.1%}",
        )
        for link in links
    )
    return table(title, ("link", "rate", "carries", "share of its rate"), rows, left=("link",))


def catalogue_table(rows: list[dict[str, Any]]) -> Table:
    """Return rows with equal keys as a table, with those keys as headings."""
    return table("", rows[0], (map(str, row.values()) for row in rows), left=rows[0])


def to_target_notes(target: TimeToTarget) -> list[str]:
    """Return time, steps and cost to the target, and checks of global batch and learning rate.

    A line each.
    """
    reached = f"{target.task.target} on {target.task.dataset}"
    return [
        f"to target   {_training_text(target.training, reached)}",
        f"batch       {target.batch.verdict}: {target.batch.text}",
        f"rate        {target.learning_rate.text}",
        *(f"note        {note}" for note in target.notes),
    ]


def _training_text(training: Training | None, target: str) -> str:
    if training is None:
        return f"the steps to {target} are not known"
    time, low, high = map(_hours, (training.time_s, training.low_s, training.high_s))
    epochs = "" if training.epochs is None else f"{training.epochs:,.1f} epochs, "
    return (
        f"{time} ({low} to {high}) to {target}: {training.steps:,.0f} steps, "
        f"{epochs}{float(f'{training.samples:.3g}'):,.0f} samples, "
        f"{amount(training.gpu_hours)} GPU hours"
    )


def _hours(seconds: float) -> str:
    return f"{amount(seconds / 3600)} h"
