"""kill -9 of a worker and of the parent in the middle of a sweep.

Resumed, the results are those of an undisturbed one.
"""

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from tiny_sweeps import TINY, seeds

from dpsim import sweep

WITHIN = 120  # seconds, on a busy machine


def rows_written(out):
    return sum(
        path.read_bytes().count(b'{"event":"done"') for path in (out / "journals").glob("*/*.jsonl")
    )


def workers(out):
    """Process ids of those that write journals and are there."""
    names = (path.stem for path in (out / "journals").glob("*/*.jsonl"))
    pids = {int(re.fullmatch(r".+-(\d+)-\d+", name)[1]) for name in names}
    return {pid for pid in pids if (Path("/proc") / str(pid)).exists()}


def wait_until(condition, what):
    end = time.monotonic() + WITHIN
    while not condition():
        assert time.monotonic() < end, f"{what}: not within {WITHIN} s"
        time.sleep(0.01)


def command(path, out, *options):
    return [
        sys.executable,
        "-c",
        "from dpsim.cli import main; main()",
        "sweep",
        path,
        "-o",
        out,
        *options,
    ]


@pytest.mark.skipif(not Path("/proc").exists(), reason="tells by /proc whether processes are there")
@pytest.mark.parametrize(
    "points", [pytest.param(80, marks=pytest.mark.wide), pytest.param(2000, marks=pytest.mark.long)]
)
def test_killed_and_resumed_it_is_as_if_undisturbed(tmp_path, points):
    path, out = tmp_path / "tiny.yaml", tmp_path / "out"
    # Long enough points that both workers are at work before half of them are done.
    slower = TINY.replace("steps: 3", "steps: 400")
    path.write_text(f"{slower}sweep: {seeds(points)}\n")
    sweep(path, tmp_path / "undisturbed", workers=1)

    with (tmp_path / "stderr").open("w") as stderr:
        parent = subprocess.Popen(
            command(path, out, "--workers", "2"), stdout=subprocess.DEVNULL, stderr=stderr
        )
    wait_until(
        lambda: len(workers(out)) == 2 and rows_written(out) >= points // 10, "the first rows"
    )
    first = workers(out)
    assert len(first) == 2
    os.kill(min(first), signal.SIGKILL)
    wait_until(
        lambda: workers(out) - first and rows_written(out) >= points // 2,
        "rows of workers that came after the kill",
    )
    assert parent.poll() is None, "the sweep goes on without the worker"
    parent.kill()
    parent.wait()
    done = rows_written(out)
    assert points // 2 <= done < points
    wait_until(lambda: not workers(out), "the end of workers whose parent has gone")
    done = rows_written(out)

    resumed = subprocess.run(
        command(path, out, "--workers", "2", "--resume"), capture_output=True, text=True, check=True
    )

    assert (
        f"{done:,} of {points:,} points are there (0 of them failed), {points - done:,} scenarios "
        "to compute" in resumed.stderr
    )
    assert (
        f"{points - done:,} scenarios computed now, {done:,} points were there, 0 failed"
        in resumed.stdout
    )
    assert (out / "results.parquet").read_bytes() == (
        tmp_path / "undisturbed" / "results.parquet"
    ).read_bytes()
    assert not (out / "journals").exists()
