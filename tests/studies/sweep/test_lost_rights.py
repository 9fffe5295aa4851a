"""Folders that cannot be written, from the start or from some moment on, and those of other users.

Root obeys modes too here: what is run has none of root's capabilities.
"""

import os
import subprocess
import time
from pathlib import Path

import pytest
from test_kill import command, rows_written, wait_until, workers
from tiny_sweeps import SWEEP, TINY, seeds

from dpsim import sweep

AS_ANYBODY = ["setpriv", "--bounding-set", "-all"] if os.getuid() == 0 else []
NOBODY = 65534

pytestmark = pytest.mark.skipif(not Path("/proc").exists(), reason="needs Linux")


def started(path, out, *options):
    return subprocess.Popen(
        [*AS_ANYBODY, *command(path, out, *options)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


@pytest.mark.parametrize("mode", [0o555, 0o000])
def test_a_folder_that_cannot_be_written_any_more_is_one_line_and_no_row_is_lost(tmp_path, mode):
    path, out = tmp_path / "tiny.yaml", tmp_path / "out"
    slower = TINY.replace("steps: 3", "steps: 100")
    path.write_text(f"{slower}sweep: {seeds(60)}\n")
    sweep(path, tmp_path / "undisturbed", workers=1)
    with started(path, out, "--workers", "2", "--quiet") as running:
        wait_until(lambda: rows_written(out) >= 5, "the first rows")
        out.chmod(mode)
        _, message = running.communicate(timeout=120)
    out.chmod(0o755)
    assert running.returncode == 1
    assert message.startswith(f"dpsim: {out}: cannot be written: ")
    assert message.endswith("Permission denied\n")
    assert message.count("\n") == 1
    wait_until(lambda: not workers(running.pid), "the end of its workers")
    assert rows_written(out) >= 5
    resumed = sweep(path, out, workers=1, resume=True)
    assert resumed.computed <= 55
    whole = (tmp_path / "undisturbed" / "results.parquet").read_bytes()
    assert (out / "results.parquet").read_bytes() == whole


@pytest.mark.parametrize("options", [[], ["--resume"]])
def test_a_folder_that_is_read_only_is_one_line(tmp_path, write, options):
    out = tmp_path / "out"
    if options:
        sweep(write(SWEEP), out, workers=1)
    else:
        out.mkdir()
    out.chmod(0o555)
    with started(write(SWEEP), out, "--workers", "1", "--quiet", *options) as running:
        out_text, message = running.communicate(timeout=120)
    out.chmod(0o755)
    assert (running.returncode, out_text) == (1, "")
    assert message.count("\n") == 1
    assert message.startswith(f"dpsim: {out}")


def test_an_unreadable_manifest_is_reported(tmp_path, write):
    out = tmp_path / "out"
    sweep(write(SWEEP), out, workers=1)
    (out / "manifest.json").chmod(0o000)
    requested = command("", out)
    requested = [*AS_ANYBODY, *requested[:3], "results", out]
    done = subprocess.run(requested, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert done.stderr == f"dpsim: {out / 'manifest.json'}: cannot be read: Permission denied\n"


@pytest.mark.skipif(os.getuid() != 0, reason="needs root, to give folders to another user")
def test_a_sweep_of_another_user_is_read_and_not_written(tmp_path, write):
    out = tmp_path / "out"
    sweep(write(SWEEP), out, workers=1)
    for path in (out, *out.iterdir()):
        os.chown(path, NOBODY, NOBODY)
    before = {path.name: path.read_bytes() for path in out.iterdir()}
    with started(write(SWEEP), out, "--workers", "1", "--quiet", "--resume") as running:
        _, message = running.communicate(timeout=120)
    assert (running.returncode, message) == (
        1,
        f"dpsim: {out}: cannot be written: Permission denied\n",
    )
    assert {path.name: path.read_bytes() for path in out.iterdir()} == before


def test_a_disk_that_fills_up_is_one_line_with_the_folder_and_no_row_is_lost(tmp_path):
    path, full = tmp_path / "tiny.yaml", tmp_path / "full"
    path.write_text(f"{TINY}sweep: {seeds(60)}\n")
    full.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=48k", "none", full]
    if subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("no small file system can be mounted here")
    try:
        with started(path, full / "out", "--workers", "1", "--quiet") as running:
            _, message = running.communicate(timeout=120)
        assert running.returncode == 1
        assert message == f"dpsim: {full / 'out'}: cannot be written: No space left on device\n"
        done = rows_written(full / "out")
        assert 0 < done < 60
        subprocess.run(["mount", "-o", "remount,size=8m", full], check=True)
        assert sweep(path, full / "out", workers=1, resume=True).computed == 60 - done
    finally:
        subprocess.run(["umount", full], check=True)


def test_a_clock_that_is_set_while_a_sweep_is_at_work_changes_nothing(tmp_path, write, monkeypatch):
    sweep(write(SWEEP), tmp_path / "undisturbed", workers=1)
    jumps = iter(range(10**9))
    real = time.time
    monkeypatch.setattr("time.time", lambda: real() + 86_400 * (-1) ** next(jumps) * 365)
    sweep(write(SWEEP), tmp_path / "out", workers=1)
    whole = (tmp_path / "undisturbed" / "results.parquet").read_bytes()
    assert (tmp_path / "out" / "results.parquet").read_bytes() == whole
