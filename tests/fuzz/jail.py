"""A process of its own in which cases run one after the other, held to seconds and bytes; started
anew where one breaks it.
"""

from __future__ import annotations

import faulthandler
import json
import os
import resource
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict, replace
from pathlib import Path

from judge import Case, Verdict, judged

# Of the processor until a case is stopped. A fit of a whole published table takes 7 to 11 of them.
SECONDS = 20.0
LIMIT = 0.5  # CPU seconds that dpsim may give one simulation
PATIENCE = 20  # times as long of the clock, on a machine that may be busy with other things
BYTES = 4 * 2**30


class Jail:
    """Runs cases in another process, which dpsim holds to ``limit``; ``cases`` counts them."""

    def __init__(self, seconds: float = SECONDS, nbytes: int = BYTES, limit: float = LIMIT) -> None:
        self.seconds, self.bytes, self.limit, self.cases = seconds, nbytes, limit, 0
        self._process: subprocess.Popen[str] | None = None
        self._folder = Path(tempfile.mkdtemp(prefix="dpsim-fuzz-"))

    def __enter__(self) -> Jail:
        return self

    def __exit__(self, *_: object) -> None:
        self._stop()
        shutil.rmtree(self._folder, ignore_errors=True)

    def run(self, case: Case) -> Verdict:
        """What ``case`` came to; ``broken`` where it took too long or took the process with it."""
        self.cases += 1
        process = self._started()
        assert process.stdin
        assert process.stdout
        process.stdin.write(case.to_line())
        process.stdin.flush()
        if not self._answers(process):
            return self._broken(f"took more than {self.seconds:.0f} s")
        line = process.stdout.readline()
        if not line:
            return self._broken(f"ended its process, code {process.wait()}")
        return Verdict(**json.loads(line))

    def _answers(self, process: subprocess.Popen[str]) -> bool:
        """Whether the process answers before its seconds are spent."""
        assert process.stdout
        spent, begin = _spent(process.pid), time.monotonic()
        while not select.select([process.stdout], [], [], 0.25)[0]:
            if (
                _spent(process.pid) - spent > self.seconds
                or time.monotonic() - begin > self.seconds * PATIENCE
            ):
                os.kill(process.pid, signal.SIGUSR1)  # it writes down where it is
                time.sleep(0.2)
                return False
        return True

    def _broken(self, why: str) -> Verdict:
        self._stop()
        return Verdict("broken", why, _last_place(self._folder / "stacks"), self.seconds)

    def _started(self) -> subprocess.Popen[str]:
        if self._process is None:
            command = [sys.executable, __file__, str(self._folder), str(self.bytes)]
            environment = {
                **os.environ,
                "DPSIM_TIME_LIMIT": f"{self.limit:g}",
                "OMP_NUM_THREADS": "1",
                "OPENBLAS_NUM_THREADS": "1",
            }
            self._process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
            )
        return self._process

    def _stop(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.communicate()
            self._process = None


def _spent(pid: int) -> float:
    """CPU seconds that a process has used."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _last_place(stacks: Path) -> str:
    """The innermost place in the project's own code of the last stack that was written."""
    lines = stacks.read_text().splitlines() if stacks.exists() else []
    own = [line for line in lines if "/dpsim/" in line or "/validate/" in line]
    return " ".join(own[0].split()[1:])[-120:] if own else ""


def _serve(folder: Path, nbytes: int) -> None:
    """Judge the cases that come on stdin, each in a folder of its own."""
    resource.setrlimit(resource.RLIMIT_AS, (nbytes, nbytes))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    with (folder / "stacks").open("w") as stacks:
        faulthandler.register(signal.SIGUSR1, file=stacks, all_threads=False)
        for line in sys.stdin:
            # Deep enough for ../.. to be the jail's own, and not all that lies in /tmp.
            verdict = _measured(Case.of_line(line), folder / "around" / "it" / "case")
            answers.write(json.dumps(asdict(verdict)) + "\n")
            answers.flush()


def _measured(case: Case, folder: Path) -> Verdict:
    shutil.rmtree(folder.parents[1], ignore_errors=True)
    folder.mkdir(parents=True)
    os.chdir(folder)
    Path("/proc/self/clear_refs").write_text("5")  # the peak begins anew
    started = time.process_time()
    verdict = judged(case)
    return replace(verdict, seconds=time.process_time() - started, bytes=_peak())


def _peak() -> int:
    status = Path("/proc/self/status").read_text().splitlines()
    return next((int(line.split()[1]) * 1024 for line in status if line.startswith("VmHWM:")), 0)


if __name__ == "__main__":
    _serve(Path(sys.argv[1]), int(sys.argv[2]))
