"""The tables of README and docs/accuracy.md agree with the program and with each other.

tests/docs holds the blocks of both to what runs.
"""

import re
from pathlib import Path

import pytest
from ruamel.yaml import YAML

from dpsim import load_scenario, simulate
from dpsim.workload import PARTS

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text()
ACCURACY = (ROOT / "docs" / "accuracy.md").read_text()
LAW = YAML(typ="safe").load(ROOT / "dpsim" / "workload" / "compute_law.yaml")


@pytest.mark.parametrize("gpus", [8, 256, 352])
def test_the_table_of_goyal_et_al_is_what_is_predicted(gpus):
    row = re.search(rf"^\| {gpus} \| ([\d.]+) ms \| ([\d.]+) ms \|", ACCURACY, re.MULTILINE)
    predicted = simulate(
        load_scenario(ROOT / "scenarios" / "imagenet" / f"goyal-2017-{gpus}gpus.yaml")
    ).step_time_s["mean"]
    assert f"{predicted * 1e3:.1f}" == row[2]


def cells_of(text):
    """The cells of every row of a table, in order."""
    rows = re.findall(r"^\| (.*) \|$", text, re.MULTILINE)
    return [[cell.strip() for cell in row.split("|")] for row in rows]


def test_the_table_of_the_readme_says_what_the_tables_of_accuracy_say():
    """Its n, median and worst error are in one row there."""
    table = README.split("| what | n | median error | worst | target |\n")[1].split("\n\n")[0]
    rows = cells_of(table)[1:]
    assert len(rows) == 8
    there = cells_of(ACCURACY)
    for _, *numbers, _ in rows:
        assert any(set(numbers) <= set(row) for row in there), numbers


def test_the_errors_of_compute_times_are_those_of_their_fit():
    """All rows and each table: of a fit without the row's publisher, and of one that saw it."""
    table = ACCURACY.split("## Compute times\n")[1].split("\n## ")[0]
    unseen, seen = LAW["errors"]["each publisher left out"], LAW["errors"]["fitted rows"]
    output = [row[1:] for row in cells_of(table)[2:]]
    assert output == [
        [
            f"{errors['n']:,}",
            *(f"{100 * errors[name]:.1f} %" for name in ("median", "mean", "p95")),
            f"{100 * seen[kind]['median']:.1f} % / {100 * seen[kind]['mean']:.1f} %",
        ]
        for kind, errors in (
            (kind, unseen[kind]) for kind in ("all", "single-gpu", "steps", "mlperf", "llm")
        )
    ]


def test_the_number_of_fitted_constants_is_stated():
    tables = [table for part in PARTS for table in LAW[part].values()]
    fitted = sum("error" in entry for table in tables for entry in table.values())
    assert f"and {fitted} fitted constants" in ACCURACY
    assert f"depend on {fitted} fitted constants" in README
