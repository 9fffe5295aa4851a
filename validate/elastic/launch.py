"""Starts a job under torchrun, kills its ranks at the planned times, and reads their notes."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from dpsim.base.errors import FailedError
from validate.elastic.account import TOTAL, Job, Kill, Killed, tally
from validate.ranks.launch import FOLDER, LOOPBACK, ProcessGroup, read_rows

_POLL_S = 0.005
_RESTART_S = 90.0  # for processes to load torch, on a machine that may be busy
_ENDED_WITHIN_S = 10.0
_ENVIRONMENT = {
    "OMP_NUM_THREADS": "1",
    "GLOO_SOCKET_IFNAME": LOOPBACK.interface,
    # A separate store for each restart: in a shared one ranks find the addresses of killed ones,
    # and gloo tries to connect to them.
    "TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1",
}


@dataclass(frozen=True, slots=True)
class _Launched:
    """A running job, and the folder of its ranks' notes."""

    job: Job
    folder: Path
    launcher: subprocess.Popen[bytes]
    deadline: float

    def wait(self, until: Callable[[], bool]) -> None:
        """Wait until a condition holds. Raises FailedError if the job fails or takes too long."""
        while not until():
            if self.launcher.poll() or time.monotonic() > self.deadline:
                raise FailedError(
                    f"ranks must run under torchrun, but: {_last_words(self.launcher)}"
                )
            time.sleep(_POLL_S)

    def begun(self) -> list[float]:
        """Return when all ranks had begun to compute, at the start and after each restart."""
        by_rank = [
            [row["at"] for row in read_rows(self.folder, rank) if row["event"] == "begin"]
            for rank in range(self.job.ranks)
        ]
        return [max(moments) for moments in zip(*by_rank, strict=False)]

    def kill(self, attempt: int, seconds: float) -> Kill:
        """Kill the last rank ``seconds`` after all ranks have begun attempt ``attempt``.

        Waits until the launcher has ended all others.
        """
        self.wait(lambda: len(self.begun()) > attempt)
        moment = self.begun()[attempt] + seconds
        self.wait(lambda: time.monotonic() >= moment)
        # From the last note, since a restart gives ranks new processes.
        pids = [read_rows(self.folder, rank)[-1]["pid"] for rank in range(self.job.ranks)]
        at = time.monotonic()
        os.kill(pids[-1], signal.SIGKILL)
        self.wait(lambda: not any(_runs(pid) for pid in pids))
        return Kill(at=at, ended=time.monotonic())


def run(job: Job, before: Sequence[str] = ()) -> Killed:
    """Run ``job`` to its end. ``before`` precedes the launcher's command, such as ``chrt -f 5``.

    Raises FailedError if ranks do not start, do not restart, or get a wrong sum.
    """
    with TemporaryDirectory(ignore_cleanup_errors=True) as made, ProcessGroup() as group:
        folder, words = Path(made), [job.model_dump_json(), made]
        command = [*before, *_torchrun(job), "-m", "validate.elastic.worker", *words]
        launcher = group.start(command, {**os.environ, **_ENVIRONMENT, FOLDER: made})
        try:
            # Steps take longer than planned on a busy machine, but not four times as long.
            limit = _RESTART_S * (1 + len(job.kills)) + 4 * job.steps * job.step_s
            launched = _Launched(job, folder, launcher, time.monotonic() + limit)
            kills = [launched.kill(*each) for each in enumerate(job.kills)]
            launched.wait(lambda: launcher.poll() == 0)
            _check(job, json.loads((folder / TOTAL).read_text()))
            return tally(job, read_rows(folder, 0), kills)
        finally:
            # Ranks have their own sessions, and only their launcher ends them.
            if launcher.poll() is None:
                os.kill(launcher.pid, signal.SIGTERM)
            with suppress(subprocess.TimeoutExpired):
                launcher.wait(_ENDED_WITHIN_S)


def _torchrun(job: Job) -> list[str]:
    return [
        *(sys.executable, "-m", "torch.distributed.run", "--standalone"),
        *("--nproc-per-node", str(job.ranks), "--max-restarts", str(len(job.kills))),
        # Seconds between its checks of the ranks; part of the measurement.
        *("--monitor-interval", "0.1"),
    ]


def _runs(pid: int) -> bool:
    """Return whether a process exists and is not dead already."""
    with suppress(OSError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    return False


def _check(job: Job, total: int) -> None:
    """Raise FailedError unless every step counts once, however often it was done."""
    ranks = sum(range(job.ranks))
    wanted = sum(job.ranks * step + ranks for step in range(job.steps))
    if total != wanted:
        raise FailedError(f"the ranks' sum must be {wanted}, but got {total}")


def _last_words(launcher: subprocess.Popen[bytes]) -> str:
    """Return the last line of the launcher that has ended."""
    code = launcher.poll()
    if code is None:
        return "they did not come in time"
    assert launcher.stderr
    lines = launcher.stderr.read().decode(errors="replace").strip().splitlines()
    return lines[-1] if lines else f"it ended with code {code}"
