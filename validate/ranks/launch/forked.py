"""Ranks that are forks of one process, with the interface that the launcher uses."""

from __future__ import annotations

import json
import os
import select
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from itertools import chain
from typing import IO, Protocol

from validate.ranks.launch.fork_server import Plan, RankPlan
from validate.ranks.launch.host import Host

_SERVER = "from validate.ranks.launch.fork_server import main; main()"

# On other systems, system libraries may start threads when loaded, and forks lose them.
CAN_FORK = sys.platform == "linux"


class Process(Protocol):
    """The interface of a rank's process, a subset of `subprocess.Popen`."""

    stdin: IO[bytes] | None
    stdout: IO[bytes] | None
    stderr: IO[bytes] | None

    @property
    def pid(self) -> int:
        """The process id."""

    def poll(self) -> int | None:
        """Return the exit code, or minus the signal that killed it; None while it runs."""

    def wait(self, timeout: float) -> int:
        """Wait for the end and return the exit code. Raises TimeoutExpired."""


class Forked:
    """A rank that ``server`` forks, as a `Process`.

    The pipe ``status`` yields its pid and then its exit code, a line each. The rank also holds that
    pipe open: if it ends without a code, the server was killed, and the rank with it.
    """

    stdin: IO[bytes] | None = None

    def __init__(
        self, server: subprocess.Popen[bytes], stdout: int, stderr: int, status: int
    ) -> None:
        self.stdout: IO[bytes] | None = os.fdopen(stdout, "rb", buffering=0)
        self.stderr: IO[bytes] | None = os.fdopen(stderr, "rb", buffering=0)
        self._server = server
        self._status = os.fdopen(status, "rb", buffering=0)
        # Not `select.select`, which only takes descriptors below 1024: ranks have three each.
        self._news = select.poll()
        self._news.register(self._status, select.POLLIN)
        self._status_text = b""
        self._code: int | None = None

    @property
    def pid(self) -> int:
        """The process id; the server's until the rank is forked."""
        return int(self._status_text.split()[0]) if self._status_text else self._server.pid

    def poll(self) -> int | None:
        with suppress(subprocess.TimeoutExpired):
            return self.wait(0.0)
        return None

    def wait(self, timeout: float) -> int:
        end = time.monotonic() + timeout
        while self._code is None:
            if not self._news.poll(1e3 * max(0.0, end - time.monotonic())):
                raise subprocess.TimeoutExpired(_SERVER, timeout)
            self._read_status(max(0.0, end - time.monotonic()))
        return self._code

    def _read_status(self, patience_s: float) -> None:
        """Read the available status. Raises TimeoutExpired if the server has yet to end."""
        read = self._status.read(64)
        self._status_text += read
        lines = self._status_text.split(b"\n")
        if len(lines) > 2:
            self._code = int(lines[1])
        elif not read:
            self._code = self._server.wait(patience_s)
        if self._code is not None:
            self._status.close()


def start_forked(
    program: Sequence[str],
    preload: Sequence[str],
    hosts: Sequence[Host],
    variables: Sequence[Mapping[str, str]],
    *,
    realtime: bool,
    group: int,
) -> tuple[subprocess.Popen[bytes], list[Forked]]:
    """Start a fork server in process group ``group``, and its ranks: one per host and environment.

    ``program`` is an interpreter and its arguments. Raises OSError if it cannot be started.
    """
    interpreter, *arguments = program
    ours: list[list[int]] = []
    ranks: list[RankPlan] = []
    for host, own in zip(hosts, variables, strict=True):
        read, written = zip(*(os.pipe() for _ in ("stdout", "stderr", "status")), strict=True)
        ours.append([*read])
        ranks.append(_plan_rank(host, own, written, realtime=realtime))
    try:
        server = _start_server(interpreter, ranks, variables[0], group)
    except OSError:
        for end in chain.from_iterable(ours):
            os.close(end)
        raise
    finally:
        # The server has its copies by now. As long as these are open, reads would never end.
        for end in _pipes(ranks):
            os.close(end)

    members = [Forked(server, *ends) for ends in ours]
    plan: Plan = {"preload": [*preload], "program": arguments, "ranks": ranks}
    assert server.stdin
    # A server that crashed at once reads nothing, which its ranks' codes show.
    with suppress(BrokenPipeError), server.stdin:
        server.stdin.write(json.dumps(plan).encode())
    return server, members


def _plan_rank(
    host: Host, environment: Mapping[str, str], written: Sequence[int], *, realtime: bool
) -> RankPlan:
    """Return the plan of a rank on ``host``, with the write ends of its pipes."""
    stdout, stderr, status = written
    return {
        "environment": {**environment},
        "namespace": host.namespace,
        "realtime": realtime and host.realtime,
        "stdout": stdout,
        "stderr": stderr,
        "status": status,
    }


def _pipes(ranks: Sequence[RankPlan]) -> list[int]:
    return [end for rank in ranks for end in (rank["stdout"], rank["stderr"], rank["status"])]


def _start_server(
    interpreter: str, ranks: Sequence[RankPlan], environment: Mapping[str, str], group: int
) -> subprocess.Popen[bytes]:
    """Start the server, which then waits for its plan."""
    return subprocess.Popen(
        [interpreter, "-c", _SERVER],
        stdin=subprocess.PIPE,
        # Output during the imports, and errors of a server that crashes at one.
        stdout=ranks[0]["stdout"],
        stderr=ranks[0]["stderr"],
        env=environment,
        process_group=group,
        pass_fds=_pipes(ranks),
    )
