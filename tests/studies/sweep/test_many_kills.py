"""kill -9 at random moments of sweeps, resumed until they are done: the bytes of undisturbed ones.

``DPSIM_KILLS`` replaces the number of kills. What was killed, and how far each sweep had come, is
printed.
"""

import os
import random
import select
import signal
import subprocess
import sys
import time
from collections import Counter
from contextlib import suppress
from pathlib import Path

import pytest
from test_kill import command, rows_written, workers
from tiny_sweeps import TINY, seeds

from dpsim import sweep

POINTS = 2_000
KILLS = int(os.environ.get("DPSIM_KILLS", "200"))
WITHIN_S = 300

pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(not Path("/proc").exists(), reason="tells by /proc who is there"),
]


class Sweeper:
    """A sweep that is begun, killed and resumed in a folder, again and again."""

    def __init__(self, path, folder, options, victims, say):
        self.say = say
        self.path, self.folder, self.options, self.victims = path, folder, options, victims
        self.random = random.Random(options[0])
        self.kills = Counter()
        begin = time.monotonic()
        self.to_the_end(folder / "undisturbed", 0)
        self.longest_s = (time.monotonic() - begin) / 2  # until a kill

    def to_the_end(self, out, kills):
        """Resume the sweep in ``out`` until it is done; it is killed at most ``kills`` times.

        Answers how often.
        """
        done = 0
        while True:
            process = self._started(out)
            if done < kills and self._killed(process, out):
                done += 1
                continue
            code, message = process.wait(WITHIN_S), (self.folder / "stderr").read_text()
            if code == 1 and "no workers" in message:
                continue  # all of a cluster's were killed, and are not back yet
            assert code == 0, message[-2000:]
            return done

    def _started(self, out):
        with (self.folder / "stderr").open("w") as stderr:
            return subprocess.Popen(
                command(self.path, out, *self.options, "--resume"),
                stdout=subprocess.DEVNULL,
                stderr=stderr,
                start_new_session=True,
            )

    def _killed(self, process, out):
        """Whether a victim was found at a random moment, before the sweep was done."""
        least = rows = rows_written(out)
        at_work = self.random.random() < 0.8  # the others are killed while they begin, too
        moment = time.monotonic() + self.random.uniform(0, self.longest_s)
        while time.monotonic() < moment or (at_work and rows <= least):
            if process.poll() is not None:
                return False
            time.sleep(0.02)
            rows = rows_written(out)
        kind = self.random.choice(("parent", "worker", "all"))
        victims = self.victims(process.pid)
        if kind != "parent" and not victims:
            kind = "parent"
        if kind == "parent":
            _kill(process.pid)
        elif kind == "worker":
            _kill(self.random.choice(sorted(victims)))
        else:
            for pid in (process.pid, *victims):
                _kill(pid)
        self.kills[kind] += 1
        self.say(f"{rows_written(out):,} rows, then {kind}: {sum(self.kills.values())} kills")
        if kind == "worker":
            # The sweep goes on without it, or says what happened; then it is ended as well.
            time.sleep(self.random.uniform(0, 1))
            _kill(process.pid)
        process.wait(WITHIN_S)
        # Half of the sweeps are resumed while workers have yet to notice that nobody listens.
        if self.random.random() < 0.5:
            end = time.monotonic() + WITHIN_S
            while self.victims is workers and workers(process.pid):
                assert time.monotonic() < end
                time.sleep(0.01)
        return True


def _kill(pid):
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)


def _bytes(out):
    return (out / "results.parquet").read_bytes()


def _campaign(tmp_path, options, victims, capsys):
    path = tmp_path / "tiny.yaml"
    path.write_text(f"{TINY}sweep: {seeds(POINTS)}\n")
    sweep(path, tmp_path / "one-worker", workers=1)

    def say(text):
        with capsys.disabled():
            print(f"{options[0]}: {text}")

    sweeper = Sweeper(path, tmp_path, options, victims, say)
    made = sweeps = 0
    while made < KILLS:
        out = tmp_path / f"out{sweeps}"
        begun = sweeper.to_the_end(out, KILLS - made)
        if not begun:  # done before its first kill
            sweeper.longest_s /= 2
        made, sweeps = made + begun, sweeps + 1
        assert _bytes(out) == _bytes(tmp_path / "one-worker")
        say(f"{made} kills {dict(sweeper.kills)}, {sweeps} sweeps whole")
        assert rows_written(out) == POINTS
    # A campaign without workers would kill nothing but the sweep itself.
    assert sweeper.kills["worker"] + sweeper.kills["all"] >= KILLS // 3


def test_loky(tmp_path, capsys):
    _campaign(tmp_path, ("--workers", "2"), workers, capsys)


def test_dask(tmp_path, capsys):
    pytest.importorskip("distributed")
    with subprocess.Popen(
        [sys.executable, __file__], stdout=subprocess.PIPE, stdin=subprocess.PIPE, text=True
    ) as cluster:
        try:
            address = cluster.stdout.readline().strip()
            _campaign(tmp_path, ("--dask", address), lambda _: _children(cluster.pid), capsys)
        finally:
            cluster.stdin.close()
            cluster.wait(WITHIN_S)


def _children(pid):
    """The workers of the cluster: they come back after a kill."""
    found = set()
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rpartition(")")[2].split()
            line = (stat.parent / "cmdline").read_bytes()
        except OSError:
            continue
        if int(fields[1]) == pid and b"dask_worker" in line:
            found.add(int(stat.parent.name))
    return found


def _serve():
    """A Dask cluster of two workers until stdin is closed; who is killed is started anew.

    Not by Dask's nannies, which give up where a worker is killed while it starts.
    """
    from distributed import LocalCluster

    with LocalCluster(n_workers=0, dashboard_address=":0", protocol="tcp://") as cluster:
        address = cluster.scheduler_address
        words = (sys.executable, "-m", "distributed.cli.dask_worker", address, "--no-nanny")
        words += ("--nthreads", "1", "--no-dashboard")
        print(address, flush=True)
        at_work = []
        while not select.select([sys.stdin], [], [], 0.1)[0]:
            at_work = [worker for worker in at_work if worker.poll() is None]
            at_work += [subprocess.Popen(words) for _ in range(2 - len(at_work))]
        for worker in at_work:
            worker.kill()


if __name__ == "__main__":
    _serve()
