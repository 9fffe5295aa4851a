"""The columns of a sweep's results, each computed from a `Result`, and the varied fields' names."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TypeAlias

from dpsim.engine import PARTS, PartName, Result

Cell: TypeAlias = str | int | float | bool | None

OF_A_POINT = ("point", "file", "name", "seed")  # before the varied fields; point counts from 0
ERROR = "error"
BETWEEN_SENTENCES = "; "  # separates entries in columns that hold several


@dataclass(frozen=True, slots=True)
class Column:
    """A column: its name, meaning, type and source.

    Any value may be missing.
    """

    name: str
    meaning: str
    type: type
    of: Callable[[Result], Cell]


def _part(name: PartName) -> Column:
    return Column(
        f"{name}_s", f"mean seconds of {name} in a step", float, lambda result: result.parts_s[name]
    )


def _step(name: str, meaning: str) -> Column:
    return Column(
        f"step_time_{name}_s",
        f"{meaning} of the step time",
        float,
        lambda result: result.step_time_s[name],
    )


def _total(name: str, meaning: str) -> Column:
    return Column(f"total_{name}", meaning, float, lambda result: getattr(result.total, name, None))


COLUMNS = (
    Column("workers", "number of workers", int, lambda result: result.workers),
    Column("step_time_s", "mean step time", float, lambda result: result.step_time_s["mean"]),
    _step("median", "median"),
    _step("p95", "95th percentile"),
    _step("low", "lower end of the 95 % interval of the mean over seeds"),
    _step("high", "upper end of that"),
    Column(
        "interval_low_s",
        "lower end of the 90 % interval of the models' error of the mean step",
        float,
        lambda result: None if result.interval is None else result.interval.low,
    ),
    Column(
        "interval_high_s",
        "upper end of that",
        float,
        lambda result: None if result.interval is None else result.interval.high,
    ),
    Column(
        "extrapolated",
        "what is unlike all that was measured",
        str,
        lambda result: (
            "" if result.interval is None else BETWEEN_SENTENCES.join(result.interval.extrapolated)
        ),
    ),
    # All parts, even those that a scenario lacks: all sweeps have the same columns.
    *map(_part, PARTS),
    Column(
        "overlapped_comm_s",
        "mean seconds of communication beside computation",
        float,
        lambda result: result.overlapped_comm_s,
    ),
    Column(
        "throughput_samples_per_s",
        "samples per second of all workers",
        float,
        lambda result: result.throughput_samples_per_s,
    ),
    Column(
        "tokens_per_s",
        "tokens per second of all workers",
        float,
        lambda result: result.utilisation.tokens_per_s,
    ),
    Column(
        "tokens_per_s_per_gpu",
        "tokens per second and GPU",
        float,
        lambda result: result.utilisation.tokens_per_s_per_gpu,
    ),
    Column(
        "mfu",
        "share of the GPUs' peak that the model's FLOP take",
        float,
        lambda result: result.utilisation.mfu,
    ),
    Column(
        "hfu",
        "that with what checkpointing computes again",
        float,
        lambda result: result.utilisation.hfu,
    ),
    Column(
        "tflops_per_gpu",
        "TFLOP/s of the model on each GPU",
        float,
        lambda result: result.utilisation.tflops_per_gpu,
    ),
    Column(
        "scaling_efficiency",
        "throughput over that of single workers",
        float,
        lambda result: result.scaling_efficiency,
    ),
    Column(
        "bytes_sent_per_worker",
        "bytes that the busiest worker sends in a step",
        int,
        lambda result: result.traffic.sent_by_busiest,
    ),
    Column(
        "bytes_sent_total",
        "bytes that all workers send in a step",
        int,
        lambda result: result.traffic.sent_in_total,
    ),
    Column("bytes_per_sample", "those per sample", float, lambda result: result.bytes_per_sample),
    Column(
        "algorithms",
        "names of the algorithms used, with commas",
        str,
        lambda result: ",".join(result.traffic.algorithms),
    ),
    Column(
        "libraries",
        "whose collectives they are, with commas",
        str,
        lambda result: ",".join(each.library for each in result.libraries),
    ),
    Column(
        "busiest_link", "name of the busiest link", str, lambda result: result.traffic.busiest_link
    ),
    Column(
        "busiest_link_utilisation",
        "share of its rate that it carried over the step",
        float,
        lambda result: result.traffic.busiest_link_utilisation,
    ),
    Column(
        "clock_gap_mean",
        "mean iterations ahead of the slowest",
        float,
        lambda result: result.staleness["clock_gap"]["mean"],
    ),
    Column(
        "clock_gap_max", "most of them", int, lambda result: result.staleness["clock_gap"]["max"]
    ),
    Column(
        "versions_mean",
        "mean updates between reading and applying",
        float,
        lambda result: result.staleness["versions"]["mean"],
    ),
    Column("versions_max", "most of them", int, lambda result: result.staleness["versions"]["max"]),
    Column(
        "dropped",
        "share of gradients that were dropped",
        float,
        lambda result: result.staleness["dropped"],
    ),
    Column(
        "startup_s",
        "seconds until all hold the model",
        float,
        lambda result: result.one_time.startup_s,
    ),
    Column(
        "memory_bytes",
        "bytes held on each GPU",
        float,
        lambda result: result.memory.to_json()["total_bytes"] if result.memory else None,
    ),
    Column(
        "memory_fits",
        "whether they fit",
        bool,
        lambda result: result.memory.to_json()["fits"] if result.memory else None,
    ),
    Column(
        "input_bound", "whether samples come too slowly", bool, lambda result: result.input_bound
    ),
    Column(
        "goodput",
        "share of the time that is useful",
        float,
        lambda result: result.goodput.useful if result.goodput else None,
    ),
    Column(
        "seconds_per_million_samples",
        "seconds that a million samples take",
        float,
        lambda result: 1e6 / result.throughput_samples_per_s,
    ),
    Column(
        "price_per_million_samples",
        "their price, at a list price where the scenario states none",
        float,
        lambda result: result.price_per_million_samples,
    ),
    Column(
        "kwh_per_million_samples",
        "their energy in kWh",
        float,
        lambda result: None if result.energy is None else result.energy.per_sample_J / 3.6,
    ),
    Column("currency", "that of prices", str, lambda result: result.spending.currency),
    _total("time_s", "seconds of the training that --tokens, --samples or --epochs ask of"),
    _total("gpu_hours", "its GPU hours"),
    _total("price", "its price"),
    _total("energy_kwh", "its energy in kWh"),
    Column("calibration", "where times come from", str, lambda result: _text(result.calibration)),
    Column("notes", "notes on the prediction", str, lambda result: "; ".join(result.notes)),
)


def row(result: Result) -> dict[str, Cell]:
    """Return a result as one flat row."""
    return {column.name: column.of(result) for column in COLUMNS}


def varied_names(paths: Iterable[str]) -> dict[str, str]:
    """Return the column of each varied field by its path.

    A column is named by the last word of the path, or by the whole path if that name is taken. A
    varied name or seed of the run is in the columns anyway.
    """
    chosen = [path for path in paths if path not in ("name", "run.seed")]
    words = Counter(map(_last_word, chosen))
    taken = {*OF_A_POINT, *(column.name for column in COLUMNS), ERROR}
    return {
        path: path if words[word] > 1 or word in taken else word
        for path in chosen
        for word in [_last_word(path)]
    }


def _last_word(path: str) -> str:
    """Return the last word of a path in lower case, since SQL is case-insensitive."""
    return re.sub(r"(\[\d+\]|\.\d+)+$", "", path).rpartition(".")[2].lower()


def _text(value: str | dict[str, object]) -> str:
    return value if isinstance(value, str) else json.dumps(value, sort_keys=True)
