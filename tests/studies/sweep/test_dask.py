"""The same sweep on processes of this machine and on a Dask cluster."""

import json
import os
import signal
import subprocess
import sys
from importlib.util import find_spec

import pytest
from test_kill import command, rows_written, wait_until
from tiny_sweeps import SWEEP, TINY, seeds

from dpsim import sweep
from dpsim.base.errors import FailedError, ScenarioError

pytestmark = pytest.mark.skipif(
    find_spec("distributed") is None, reason="Dask is not installed: pip install -e '.[cluster]'"
)


def cluster_of(workers):
    from distributed import LocalCluster

    return LocalCluster(
        n_workers=workers,
        threads_per_worker=1,
        processes=True,
        host="127.0.0.1",
        protocol="tcp://",
        dashboard_address="127.0.0.1:0",  # any port: two runs of the tests are no rivals
    )


def test_a_scheduler_and_two_workers_give_the_tables_that_processes_give(write, tmp_path):
    paths = [write(seeds(24)), write(SWEEP, "conflicts.yaml")]
    sweep(paths, tmp_path / "processes", workers=2)
    with cluster_of(2) as cluster:
        swept = sweep(paths, tmp_path / "dask", dask=cluster.scheduler_address)
    assert (swept.points, swept.computed, swept.failed) == (40, 36, 10)
    for name in ("points.parquet", "results.parquet"):
        assert (tmp_path / "dask" / name).read_bytes() == (
            tmp_path / "processes" / name
        ).read_bytes()


def test_a_value_that_workers_refuse_in_every_point_is_a_mistake_in_the_file(write, tmp_path):
    path = write("{parameters: {cluster.nodes: {values: [2, -2]}, run.seed: {values: [0, 1]}}}")
    with pytest.raises(ScenarioError) as here:
        sweep(path, tmp_path / "processes", workers=1)
    with cluster_of(1) as cluster, pytest.raises(ScenarioError) as there:
        sweep(path, tmp_path / "dask", dask=cluster.scheduler_address)
    assert str(there.value) == str(here.value)
    assert not (tmp_path / "dask").exists()


def test_a_scheduler_without_workers_is_reported(write, tmp_path, monkeypatch):
    monkeypatch.setattr("dpsim.studies.sweep.execute._CONNECT_WITHIN", 1.0)
    with (
        cluster_of(0) as cluster,
        pytest.raises(ValueError, match="has no workers"),
    ):
        sweep(write(), tmp_path / "out", dask=cluster.scheduler_address)


SLOWER = TINY.replace("steps: 3", "steps: 300")


def stops(pid):
    """A sweep's ``progress`` that stops the process ``pid`` once there is a row: it hangs."""

    def progress(done):
        if done == 1:
            os.kill(pid, signal.SIGSTOP)

    return progress


@pytest.fixture
def forgets_soon():
    """A scheduler forgets a worker that it does not hear of for 10 s, instead of 5 minutes."""
    import dask

    with dask.config.set({"distributed.scheduler.worker-ttl": "10s"}):
        yield


@pytest.mark.wide
@pytest.mark.usefixtures("forgets_soon")
def test_what_a_worker_that_hangs_was_given_is_computed_all_the_same(write, tmp_path):
    path = write(seeds(24), text=SLOWER)
    sweep(path, tmp_path / "processes", workers=1)
    with cluster_of(2) as cluster:
        hangs = stops(cluster.workers[0].process.pid)
        swept = sweep(path, tmp_path / "dask", dask=cluster.scheduler_address, progress=hangs)
    assert (swept.points, swept.computed, swept.failed) == (24, 24, 0)
    assert (tmp_path / "dask" / "results.parquet").read_bytes() == (
        tmp_path / "processes" / "results.parquet"
    ).read_bytes()


@pytest.mark.usefixtures("forgets_soon")
def test_where_the_only_worker_hangs_the_sweep_ends_and_can_go_on(write, tmp_path, monkeypatch):
    monkeypatch.setattr("dpsim.studies.sweep.execute._BACK_WITHIN", 1.0)
    path = write(seeds(24), text=SLOWER)
    with cluster_of(0) as cluster:
        address = cluster.scheduler_address
        # Without a nanny, which would start it anew.
        command = [sys.executable, "-m", "distributed.cli.dask_worker", address, "--no-nanny"]
        with subprocess.Popen([*command, "--no-dashboard"], stderr=subprocess.DEVNULL) as worker:
            try:
                with pytest.raises(FailedError, match="has had no workers for 1 s"):
                    sweep(path, tmp_path / "out", dask=address, progress=stops(worker.pid))
            finally:
                worker.kill()
    resumed = sweep(path, tmp_path / "out", workers=1, resume=True)
    assert 0 < resumed.computed < 24
    assert resumed.failed == 0


def test_a_scheduler_that_is_killed_is_one_line(write, tmp_path):
    path, out, file = write(seeds(200), text=SLOWER), tmp_path / "out", tmp_path / "scheduler"
    dask = [sys.executable, "-m", "distributed.cli.dask_scheduler", "--no-dashboard", "--port", "0"]
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    with subprocess.Popen([*dask, "--scheduler-file", file], **quiet) as scheduler:
        wait_until(lambda: file.exists() and file.read_text(), "the scheduler's address")
        address = json.loads(file.read_text())["address"]
        work = [sys.executable, "-m", "distributed.cli.dask_worker", address, "--no-nanny"]
        with subprocess.Popen([*work, "--no-dashboard"], **quiet) as worker:
            line = command(path, out, "--dask", address, "--quiet")
            running = subprocess.Popen(line, stderr=subprocess.PIPE, text=True)
            wait_until(lambda: rows_written(out) >= 1, "the first row")
            scheduler.kill()
            _, message = running.communicate(timeout=120)
            worker.kill()
    assert running.returncode == 1
    assert message == f"dpsim: --dask: the scheduler at {address} has gone (--resume goes on)\n"
