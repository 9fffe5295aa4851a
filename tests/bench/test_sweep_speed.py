"""A thousand small scenarios from cold, by one worker and by two, and by a Dask cluster."""

import json
import subprocess
import sys
import time
from contextlib import ExitStack
from pathlib import Path

import pytest

from dpsim import sweep

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
CLIENT_US = 500  # of the processor for a point
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


def quickstarts(path, number):
    """Write a sweep of so many quickstarts of 22 steps to ``path``, and return it."""
    seeds = ", ".join(map(str, range(number // 20)))
    few_steps = QUICKSTART.read_text().replace("steps: 50, warmup: 5", "steps: 20, warmup: 2")
    path.write_text(few_steps + POINTS.replace("SEEDS", seeds))
    return path


def test_a_thousand_small_scenarios_take_a_minute_on_two_cores(tmp_path, measured):
    path = quickstarts(tmp_path / "thousand.yaml", NUMBER)
    both = seconds(path, tmp_path / "two", 2)
    single = seconds(path, tmp_path / "one", 1)
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
        both / single,
        unit="of 1",
        limit=1 / FASTER,
    )


def test_the_client_of_a_cluster_does_little(tmp_path, measured):
    pytest.importorskip("distributed")
    path, file = quickstarts(tmp_path / "many.yaml", 4 * NUMBER), tmp_path / "scheduler"
    with ExitStack() as stack:

        def start(what, *arguments):
            words = [
                sys.executable,
                "-m",
                f"distributed.cli.dask_{what}",
                *arguments,
                "--no-dashboard",
            ]
            quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
            started = stack.enter_context(subprocess.Popen(words, **quiet))
            stack.callback(started.kill)

        start("scheduler", "--port", "0", "--scheduler-file", file)
        while not (file.exists() and file.read_text()):
            time.sleep(0.1)
        address = json.loads(file.read_text())["address"]
        for _ in range(2):
            start("worker", address, "--no-nanny", "--nthreads", "1")
        sweep(quickstarts(tmp_path / "few.yaml", 20), tmp_path / "few", dask=address)  # imports
        begin = time.process_time()
        swept = sweep(path, tmp_path / "out", dask=address)
        taken = (time.process_time() - begin) / swept.points
    assert (swept.computed, swept.failed) == (4 * NUMBER, 0)
    measured(
        "the client of a sweep by Dask, for a point",
        f"{4 * NUMBER:,} scenarios",
        1e6 * taken,
        unit="us",
        limit=CLIENT_US,
    )
