"""Whatever valid scenario the schema has, its answer keeps the laws of `laws`.

Each scenario is checked for two of them, and one of the others in turn: a law for every fourth.
"""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from functools import cache, reduce
from operator import attrgetter
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import drawn
import pytest
from laws import ALWAYS, IN_TURN

from dpsim import compare, load_scenario, simulate, sweep
from dpsim.scenario import Scenario
from dpsim.scenario.shape import Shape, shape_of

BLOCK = 50  # scenarios of a test
BLOCKS = 60
FIRST = 3  # blocks that `make test` has; `make test-wide` has the rest
TURNS = 4  # continuous integration takes that part of the rest, which one by the commit
CI = bool(os.environ.get("CI"))
COMPARED = 10  # scenarios, each by four ways


@pytest.fixture(scope="module")
def models() -> Iterator[list[str]]:
    with TemporaryDirectory() as folder:
        yield drawn.profiles(Path(folder))


def _tier(block: int) -> list[pytest.MarkDecorator]:
    if block < FIRST:
        return []
    return [pytest.mark.wide if not CI or block % TURNS == _turn() else pytest.mark.long]


@cache
def _turn() -> int:
    output = subprocess.run(
        ["git", "rev-parse", "HEAD"], check=False, capture_output=True, text=True
    )
    return int(output.stdout.strip() or "0", 16) % TURNS


@pytest.mark.parametrize("block", [pytest.param(n, marks=_tier(n)) for n in range(BLOCKS)])
def test_a_drawn_scenario_keeps_the_laws(block: int, models: list[str]) -> None:
    broken = []
    for number in range(block * BLOCK, (block + 1) * BLOCK):
        run = drawn.run(number, models)
        for law in (*ALWAYS, IN_TURN[number % len(IN_TURN)]):
            output = law(run)
            if output is not None:
                broken.append(f"scenario {number}: {law.__doc__.splitlines()[0]} But {output}.")
    assert not broken, "\n".join(broken)


def test_one_scenario_has_one_answer(models: list[str], tmp_path: Path, dpsim: Any) -> None:
    """Python, a comparison, a sweep and the command line have the same mean of it."""
    means = {}
    for number in range(COMPARED):
        content = drawn.run(number, models).scenario.model_dump(mode="json", exclude_unset=True)
        file = tmp_path / f"{number}.yaml"
        file.write_text(json.dumps(content))
        means[str(file)] = simulate(load_scenario(file)).step_time_s["mean"]

    first, *others = means
    compared = compare(first, others=others)
    swept = sweep([*means], tmp_path / "swept", workers=1)
    requested = {file: json.loads(dpsim("run", file, "--json")[1]) for file in means}
    assert {row.values["file"]: row.result.step_time_s["mean"] for row in compared.rows} == means
    assert {row["file"]: row["step_time_s"] for row in swept.to_rows()} == means
    assert {file: answer["step_time_s"]["mean"] for file, answer in requested.items()} == means


@pytest.mark.long
def test_every_kind_is_drawn(models: list[str]) -> None:
    """What is not drawn keeps any law."""
    drawn_kinds: dict[str, set[str]] = {path: set() for path in KINDS}
    for number in range(2 * FIRST * BLOCK):
        scenario = drawn.run(number, models).scenario
        for path, kinds in drawn_kinds.items():
            part = attrgetter(path)(scenario)
            kinds.add(getattr(part, KINDS[path]) if part is not None else "none")
    for path, kinds in drawn_kinds.items():
        shape = reduce(Shape.below, path.split("."), shape_of(Scenario)).union()
        assert not set(shape.kinds()) - kinds, path


KINDS = {
    "strategy.aggregation": "kind",
    "strategy.sync": "kind",
    "strategy.overlap": "kind",
    "strategy.compression": "kind",
    "cluster.network": "fabric",
    "disturbance.jitter": "kind",
    "workload.input": "kind",
}
