"""A sweep's table has what differs and five results; any query's columns have their units."""

from dataclasses import replace

import pytest
from rich.console import Console

from dpsim.base.units import size
from dpsim.report.text.sweep import answer_table, sweep_notes, sweep_table
from dpsim.studies.sweep import COLUMNS, Answer

RESULTS = {column.name: None for column in COLUMNS}
FOUND = {
    "step_time_s": 0.25,
    "throughput_samples_per_s": 51.234,
    "scaling_efficiency": 0.875,
    "interval_low_s": 0.1554,
    "interval_high_s": 0.3,
    "extrapolated": "no 8 nodes; no RoCE",
    "memory_bytes": 7.354e9,
}


def answer(*points):
    """Points as ``select *`` answers them: each a mapping of what was varied."""
    varied = list(dict.fromkeys(name for point in points for name in point))
    of_a_point = ("point", "file", "name", "seed")
    columns = (*of_a_point, *varied, *RESULTS, "error")
    rows = tuple(
        (
            *(number, "a.yaml", "a", 0),
            *(point.get(name) for name in varied),
            *{**RESULTS, **FOUND}.values(),
            None,
        )
        for number, point in enumerate(points)
    )
    return Answer(columns, rows, len(rows), len(rows))


def heads(table):
    return [str(column.header) for column in table.columns]


RESULTS_SHOWN = ["step", "90% within", "samples/s", "efficiency", "memory"]


def test_it_has_what_differs_and_five_results_and_fits_80_columns():
    table = sweep_table(
        answer({"nodes": 1, "algorithm": "ring"}, {"nodes": 2, "algorithm": "ring"})
    )
    assert heads(table) == ["point", "nodes", *RESULTS_SHOWN]
    assert Console(width=200).measure(table).maximum <= 80
    cells = [next(iter(column.cells)) for column in table.columns]
    assert cells == ["0", "1", "250 ms", "155 to 300 ms", "51.2", "87.5%", "7.35 GB"]


def test_some_points_are_labelled_as_all_of_the_sweep_are():
    """What varies in the sweep says what a point is, even if the shown points share it."""
    every = answer({"nodes": 1, "stage": 2}, {"nodes": 1, "stage": 3}, {"nodes": 2, "stage": 3})
    some = replace(every, rows=every.rows[:1])
    assert heads(sweep_table(some)) == ["point", *RESULTS_SHOWN]
    assert heads(sweep_table(some, among=every)) == ["point", "nodes", "stage", *RESULTS_SHOWN]


def test_kinds_are_called_by_what_has_them():
    points = (
        {"strategy.sync.kind": sync, "strategy.compression.kind": codec}
        for sync, codec in (("bsp", "none"), ("ssp", "none"), ("bsp", "cast"))
    )
    assert heads(sweep_table(answer(*points))) == ["point", "sync", "compression", *RESULTS_SHOWN]


def test_the_first_are_shown():
    table = sweep_table(answer(*({"nodes": count} for count in range(9))), 4)
    assert [*table.columns[0].cells] == ["0", "1", "2", "3"]


def test_an_extrapolation_is_noted_once_below_the_table():
    found = answer({"nodes": 1}, {"nodes": 2})
    assert sweep_notes(found) == ["extrapolated: no 8 nodes", "extrapolated: no RoCE"]
    assert sweep_notes(found, 0) == []


def test_amounts_of_data_have_their_unit():
    found = Answer(("bucket_size", "memory_bytes", "x"), ((1048576.0, 7.354e9, 1.5),), 1, 1)
    cells = [next(iter(column.cells)) for column in answer_table(found).columns]
    assert cells == ["1 MiB", "7.354 GB", "1.5"]


@pytest.mark.parametrize(
    ("nbytes", "message"),
    [
        (2**20, "1 MiB"),
        (3 * 2**30, "3 GiB"),
        (1024, "1 KiB"),
        (1e6, "1 MB"),
        (1025, "1.025 kB"),
        (0, "0 B"),
    ],
)
def test_whole_binary_sizes_have_binary_units(nbytes, message):
    assert size(nbytes) == message
