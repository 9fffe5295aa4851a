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
from pathlib import Path
from tempfile import TemporaryDirectory

from dpsim.base.errors import DpsimError
from validate.ranks.launch.fork_server import PRIORITY
from validate.ranks.launch.forked import CAN_FORK
from validate.ranks.launch.group import ProcessGroup
from validate.ranks.launch.host import Host
from validate.ranks.launch.output import OnLine, Output
from validate.ranks.launch.rows import FOLDER, read_rows
from validate.ranks.launch.run import RankRun, Run, RunFailed
from validate.ranks.launch.watch import Watch

ENDED_WITHIN_S = 5.0
"""Seconds at most after a rank's failure or a limit until all ranks are gone."""

# Before all other work of the machine; see the testbed's accuracy.
REALTIME = ("chrt", "-f", str(PRIORITY))


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
    which every rank must call `connected`. ``preload`` names modules that take long to import:
    ranks of ``python -m MODULE WORD...`` or ``python SCRIPT WORD...`` are then forks of one process
    that has imported them. ``look`` is called ten times a second; an exception in it ends all ranks
    and is raised here. Raises RunFailed as soon as one rank fails or a limit is exceeded;
    DpsimError for an invalid command or argument.
    """
    _check(command, hosts, timeout_s, connect_timeout_s)
    first, notes = _realtime(hosts, realtime)
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


def _realtime(hosts: Sequence[Host], wanted: bool) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the words before a rank's command for real-time scheduling, and notes.

    If it is wanted but not permitted, a note says so.
    """
    if not wanted or not any(host.realtime for host in hosts):
        return (), ()
    if shutil.which(REALTIME[0]) is None:
        return (), (
            "ranks run without real-time scheduling, since there is no chrt (Debian: apt-get "
            "install util-linux)",
        )
    # Tested by trying: a container may have the right without being root, and root may lack it.
    tried = subprocess.run([*REALTIME, "true"], check=False, capture_output=True, text=True)
    if tried.returncode == 0:
        return REALTIME, ()
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
