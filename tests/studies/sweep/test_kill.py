"""kill -9 of a worker and of the parent in the middle of a sweep.

Resumed, the results are those of an undisturbed one.
"""

import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import pytest
from tiny_sweeps import TINY, seeds

from dpsim import sweep

WITHIN = 120  # seconds, on a busy machine


def rows_written(out):
    log = out / "rows.log"
    return log.read_bytes().count(b"\n") if log.exists() else 0


def workers(session):
    """Process ids of loky's workers that were started in a session of processes and are there."""
    found = set()
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):  # it has ended
            line = (stat.parent / "cmdline").read_bytes()
            fields = stat.read_text().rpartition(")")[2].split()
            if b"popen_loky_posix" in line and int(fields[3]) == session and fields[0] != "Z":
                found.add(int(stat.parent.name))
    return found


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
            command(path, out, "--workers", "2"),
            stdout=subprocess.DEVNULL,
            stderr=stderr,
            start_new_session=True,
        )
    wait_until(
        lambda: len(workers(parent.pid)) == 2 and rows_written(out) >= points // 10,
        "the first rows",
    )
    first = workers(parent.pid)
    assert len(first) == 2
    os.kill(min(first), signal.SIGKILL)
    wait_until(
        lambda: workers(parent.pid) - first and rows_written(out) >= points // 2,
        "rows of workers that came after the kill",
    )
    assert parent.poll() is None, "the sweep goes on without the worker"
    parent.kill()
    parent.wait()
    done = rows_written(out)
    assert points // 2 <= done < points
    wait_until(lambda: not workers(parent.pid), "the end of workers whose parent has gone")
    assert rows_written(out) == done

    resumed = subprocess.run(
        command(path, out, "--workers", "2", "--resume"), capture_output=True, text=True, check=True
    )

    assert (
        f"{done:,} of {points:,} points are computed (0 failed), {points - done:,} scenarios "
        "to compute" in resumed.stderr
    )
    assert (
        f"{points - done:,} scenarios computed now, {done:,} points reused, 0 failed"
        in resumed.stdout
    )
    assert (out / "results.parquet").read_bytes() == (
        tmp_path / "undisturbed" / "results.parquet"
    ).read_bytes()
