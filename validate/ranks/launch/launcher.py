"""Starts the ranks of a run, waits until they end or fail, and ends them all."""

from __future__ import annotations

import os
import random
import shutil
import socket
import subprocess
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from dpsim.base.errors import DpsimError
from validate.ranks.launch.fork_server import PRIORITY
from validate.ranks.launch.forked import CAN_FORK, Process
from validate.ranks.launch.group import ProcessGroup
from validate.ranks.launch.host import Host
from validate.ranks.launch.output import OnLine, Output
from validate.ranks.launch.run import (
    FOLDER,
    RankRun,
    Run,
    RunFailed,
    connected_file,
    how_it_ended,
    read_rows,
    rows_file,
)

ENDED_WITHIN_S = 5.0
"""Seconds at most after a rank's failure or a limit until all ranks are gone."""

_LOOK_EVERY_S = 0.1  # output, and with it nearly every rank's end, is noticed at once
# Before all other work of the machine; see the testbed's accuracy.
_REALTIME = ("chrt", "-f", str(PRIORITY))


def launch(
    command: Sequence[str],
    hosts: Sequence[Host],
    *,
    timeout_s: float = 300.0,
    connect_timeout_s: float | None = None,
    preload: Sequence[str] = (),
    realtime: bool = True,
    environment: Mapping[str, str] | None = None,
    on_line: OnLine | None = None,
    look: Callable[[], object] = lambda: None,
) -> Run:
    """Run ``command`` once on each of ``hosts``, rank 0 on the first, until all have exited with 0.

    Seconds are counted from the start of the first rank. ``connect_timeout_s`` is a limit within
    which every rank must call `report_connected`. ``preload`` names modules that import slowly:
    ranks of ``python -m MODULE WORD...`` or ``python SCRIPT WORD...`` are then forks of one process
    that has imported them. ``look`` is called ten times a second; an exception in it ends all ranks
    and is raised here. Raises RunFailed as soon as one rank fails or a limit is exceeded;
    DpsimError for an invalid command or argument.
    """
    _check(command, hosts, timeout_s, connect_timeout_s)
    wanted = realtime and any(host.realtime for host in hosts)
    first, notes = realtime_words() if wanted else ((), ())
    with (
        TemporaryDirectory(prefix="dpsim-run-", ignore_cleanup_errors=True) as made,
        ProcessGroup() as group,
        closing(Output(on_line)) as output,
    ):
        folder = Path(made)
        # Limits count from here: starting many ranks takes a while, and is part of the run.
        began = time.monotonic()
        variables = list(environments(hosts, folder, environment or {}))
        if preload and CAN_FORK:
            group.fork(command, preload, hosts, variables, realtime=bool(first))
        else:
            for host, own in zip(hosts, variables, strict=True):
                before = first if host.realtime else ()
                group.start([*host.prefix, *before, *command], own)
        for rank, process in enumerate(group.processes):
            assert process.stdout
            assert process.stderr
            output.add(rank, "stdout", process.stdout)
            output.add(rank, "stderr", process.stderr)
        limits = began, timeout_s, connect_timeout_s
        trouble = Watch(group.processes, output, folder, look, *limits).wait()
        # Before the rest are killed, so that ranks that still ran have no exit code.
        codes = [process.poll() for process in group.processes]
        # Half of the time to end is for killing, and a quarter for the last output.
        immortal = group.kill(ENDED_WITHIN_S / 2)
        output.drain(ENDED_WITHIN_S / 4)
        notes += tuple(f"process {pid} did not end when it was killed" for pid in immortal)
        ranks = []
        for rank, host in enumerate(hosts):
            ranks.append(
                RankRun(
                    rank,
                    host.name,
                    codes[rank],
                    output.text(rank, "stdout"),
                    output.text(rank, "stderr"),
                    read_rows(folder, rank),
                )
            )
        run = Run(tuple(ranks), time.monotonic() - began, notes)
    if trouble:
        raise RunFailed(trouble.rank, trouble.reason, run, trouble.others)
    return run


def _check(
    command: Sequence[str], hosts: Sequence[Host], timeout_s: float, connect_timeout_s: float | None
) -> None:
    if not hosts:
        raise DpsimError("a run must have at least 1 rank, but got 0 hosts")
    for name, seconds in (("timeout_s", timeout_s), ("connect_timeout_s", connect_timeout_s)):
        if seconds is not None and not 0 < seconds < float("inf"):
            raise DpsimError(f"{name} must be above 0 and finite, but got {seconds}")
    if not command or shutil.which(command[0]) is None:
        got = repr(command[0]) if command else "none"
        raise DpsimError(f"the command must be a program that is there, but got {got}")


def realtime_words() -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the words before a command for real-time scheduling; none, and notes, if it cannot."""
    if shutil.which(_REALTIME[0]) is None:
        return (), (
            "ranks run without real-time scheduling, since there is no chrt (Debian: apt-get "
            "install util-linux)",
        )
    # Try it, since a container may have the right without being root, and root may lack it.
    tried = subprocess.run([*_REALTIME, "true"], check=False, capture_output=True, text=True)
    if tried.returncode == 0:
        return _REALTIME, ()
    return (), (
        "ranks run without real-time scheduling, which is not permitted here: "
        f"{tried.stderr.strip()}",
    )


# Below the ports that Linux gives to outgoing connections (32768 and up), so that none takes it
# before rank 0 listens.
_PORTS = range(20_000, 32_000)


def environments(
    hosts: Sequence[Host], folder: Path, extra: Mapping[str, str]
) -> Iterator[dict[str, str]]:
    """Yield each rank's whole environment: this process's, the rank's variables, then ``extra``."""
    ranks_on = Counter(host.name for host in hosts)
    started_on: Counter[str] = Counter()
    port = free_port()
    for rank, host in enumerate(hosts):
        yield {
            **os.environ,
            "RANK": str(rank),
            "WORLD_SIZE": str(len(hosts)),
            "LOCAL_RANK": str(started_on[host.name]),
            "LOCAL_WORLD_SIZE": str(ranks_on[host.name]),
            "MASTER_ADDR": hosts[0].address,
            "MASTER_PORT": str(port),
            # Gloo would otherwise take the address of the machine's name, which no testbed host
            # has.
            "GLOO_SOCKET_IFNAME": host.interface,
            # Ranks share the cores, as under torchrun, which sets the same value.
            "OMP_NUM_THREADS": "1",
            # Progress is read from the ranks' output line by line.
            "PYTHONUNBUFFERED": "1",
            FOLDER: str(folder),
            **extra,
        }
        started_on[host.name] += 1


def free_port() -> int:
    """Return a random port on which nothing listens here.

    Random, so that concurrent runs rarely collide, on any of their hosts.
    """
    for port in random.SystemRandom().sample(_PORTS, len(_PORTS)):
        with socket.socket() as probe:
            try:
                probe.bind(("", port))
            except OSError:
                continue
            return port
    raise AssertionError("some of 12,000 ports is free")


@dataclass(frozen=True, slots=True)
class Trouble:
    """The rank for which a run is ended, the reason, and other ranks with the same reason."""

    rank: int
    reason: str
    others: tuple[int, ...] = ()


@dataclass
class Watch:
    """Watches running ranks: their ends, their output, and their last sign of life.

    All must have connected and finished so many seconds after ``began``, on the monotonic clock.
    """

    processes: Sequence[Process]
    output: Output
    folder: Path
    look: Callable[[], object]
    began: float
    timeout_s: float
    connect_timeout_s: float | None

    def __post_init__(self) -> None:
        # The wall clock, like the modification times of the ranks' files.
        self._last_output = dict.fromkeys(range(len(self.processes)), time.time())
        self._unconnected = set(range(len(self.processes)))

    def wait(self) -> Trouble | None:
        """Read output until every rank has exited with code 0.

        Returns the trouble as soon as there is any.
        """
        while True:
            for rank in self.output.read(_LOOK_EVERY_S):
                self._last_output[rank] = time.time()
            self.look()
            codes = [process.poll() for process in self.processes]
            trouble = self._failure(codes) or self._late(codes)
            if trouble or all(code == 0 for code in codes):
                return trouble

    def _failure(self, codes: list[int | None]) -> Trouble | None:
        """Return the failure of ranks since the last check.

        A killed rank comes before those that gave up because it was gone, whose codes are the
        highest.
        """
        failed = [(code, rank) for rank, code in enumerate(codes) if code]
        if not failed:
            return None
        killed_first = sorted(failed, key=lambda found: max(found[0], 0))
        code, rank = killed_first[0]
        others = tuple(other for same, other in killed_first[1:] if same == code)
        seconds = time.monotonic() - self.began
        return Trouble(rank, f"{how_it_ended(code)} after {seconds:.1f} s", others)

    def _late(self, codes: list[int | None]) -> Trouble | None:
        """Return the rank silent for longest of those that are late to connect or to finish."""
        seconds = time.monotonic() - self.began
        if self.connect_timeout_s is not None:
            unconnected = self._still_unconnected()
            if seconds > self.connect_timeout_s and unconnected:
                reason = f"had not connected after {self.connect_timeout_s:g} s"
                return self._longest_silent(unconnected, reason, seconds)
        running = {rank for rank, code in enumerate(codes) if code is None}
        if seconds > self.timeout_s and running:
            reason = f"had not finished after {self.timeout_s:g} s"
            return self._longest_silent(running, reason, seconds)
        return None

    def _still_unconnected(self) -> set[int]:
        """Return the ranks that have not reported that they reached the others."""
        connected = {
            rank for rank in self._unconnected if connected_file(self.folder, rank).exists()
        }
        self._unconnected -= connected
        return self._unconnected

    def _longest_silent(self, ranks: set[int], reason: str, most: float) -> Trouble:
        signs = {rank: max(self._last_output[rank], self._wrote(rank)) for rank in ranks}
        first, *others = sorted(ranks, key=lambda rank: (signs[rank], rank))
        # The wall clock may have been changed meanwhile.
        silent = min(max(time.time() - signs[first], 0.0), most)
        return Trouble(first, f"{reason}, silent for {silent:.1f} s", tuple(sorted(others)))

    def _wrote(self, rank: int) -> float:
        """Return when a rank last wrote a row, in seconds of the wall clock; 0 for never."""
        file = rows_file(self.folder, rank)
        return file.stat().st_mtime if file.exists() else 0.0
