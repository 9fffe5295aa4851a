"""A thousand small scenarios from cold, by one worker and by two."""

import subprocess
import sys
import time
from pathlib import Path

import pytest

pytestmark = pytest.mark.bench

QUICKSTART = Path(__file__).parents[2] / "scenarios" / "quickstart.yaml"
POINTS = """
sweep:
  parameters:
    cluster.nodes: {values: [1, 2, 3, 4]}
    strategy.aggregation.algorithm: {values: [ring, tree, butterfly, halving-doubling, hierarchical]}
    run.seed: {values: [SEEDS]}
"""
NUMBER = 1000
FASTER = 1.3  # at least, with two workers: a second of each is to begin


def seconds(path, out, workers):
    """Wall time of the command, from its start to its end."""
    command = [
        sys.executable,
        "-c",
        "from dpsim.cli import main; main()",
        "sweep",
        path,
        "-o",
        out,
        "--workers",
        str(workers),
    ]
    begin = time.perf_counter()
    subprocess.run(command, check=True, capture_output=True)
    return time.perf_counter() - begin


def test_a_thousand_small_scenarios_take_a_minute_on_two_cores(tmp_path, measured):
    seeds = ", ".join(map(str, range(NUMBER // 20)))
    path = tmp_path / "thousand.yaml"
    few_steps = QUICKSTART.read_text().replace("steps: 50, warmup: 5", "steps: 20, warmup: 2")
    path.write_text(few_steps + POINTS.replace("SEEDS", seeds))
    both = seconds(path, tmp_path / "two", 2)
    alone = seconds(path, tmp_path / "one", 1)
    assert (tmp_path / "one" / "results.parquet").read_bytes() == (
        tmp_path / "two" / "results.parquet"
    ).read_bytes()
    measured(
        "sweep of quickstarts of 22 steps, from cold, 2 workers",
        f"{NUMBER:,} scenarios",
        both,
        limit=20,
    )
    measured(
        "the same over one worker's time",
        f"{NUMBER:,} scenarios",
        both / alone,
        unit="of 1",
        limit=1 / FASTER,
    )
