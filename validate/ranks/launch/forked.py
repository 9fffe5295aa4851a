"""Ranks that are forks of one process, as the launcher sees them."""

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

# Elsewhere libraries of the system may have threads as soon as they are loaded, and forks lose
# them.
CAN_FORK = sys.platform == "linux"


class Process(Protocol):
    """What the launcher asks of a rank, as of a `subprocess.Popen`."""

    stdin: IO[bytes] | None
    stdout: IO[bytes] | None
    stderr: IO[bytes] | None

    @property
    def pid(self) -> int:
        """Its number."""

    def poll(self) -> int | None:
        """The exit code, or minus the signal that killed it; None while it runs."""

    def wait(self, timeout: float) -> int:
        """The same, once it has ended. Raises TimeoutExpired."""


class Forked:
    """A rank that ``server`` forks, as a `Process`.

    ``status`` says its pid and then its exit code, a line each. The rank holds that pipe open, too:
    where it ends without a code, the server was killed, and the rank with it.
    """

    stdin: IO[bytes] | None = None

    def __init__(
        self, server: subprocess.Popen[bytes], stdout: int, stderr: int, status: int
    ) -> None:
        self.stdout: IO[bytes] | None = os.fdopen(stdout, "rb", buffering=0)
        self.stderr: IO[bytes] | None = os.fdopen(stderr, "rb", buffering=0)
        self._server = server
        self._status = os.fdopen(status, "rb", buffering=0)
        # Not `select.select`, which knows descriptors below 1024 alone: ranks have three each.
        self._news = select.poll()
        self._news.register(self._status, select.POLLIN)
        self._said = b""
        self._code: int | None = None

    @property
    def pid(self) -> int:
        """Its number; the server's until it is forked."""
        return int(self._said.split()[0]) if self._said else self._server.pid

    def poll(self) -> int | None:
        """As of a `Process`."""
        with suppress(subprocess.TimeoutExpired):
            return self.wait(0.0)
        return None

    def wait(self, timeout: float) -> int:
        """As of a `Process`."""
        end = time.monotonic() + timeout
        while self._code is None:
            if not self._news.poll(1e3 * max(0.0, end - time.monotonic())):
                raise subprocess.TimeoutExpired(_SERVER, timeout)
            self._hear(max(0.0, end - time.monotonic()))
        return self._code

    def _hear(self, patience_s: float) -> None:
        """Read what is there. Raises TimeoutExpired where the server has yet to end."""
        said = self._status.read(64)
        self._said += said
        lines = self._said.split(b"\n")
        if len(lines) > 2:
            self._code = int(lines[1])
        elif not said:
            self._code = self._server.wait(patience_s)
        if self._code is not None:
            self._status.close()


def forked(
    program: Sequence[str],
    preload: Sequence[str],
    hosts: Sequence[Host],
    variables: Sequence[Mapping[str, str]],
    *,
    realtime: bool,
    group: int,
) -> tuple[subprocess.Popen[bytes], list[Forked]]:
    """A fork server in process group ``group``, and its ranks: one a host, with its variables.

    ``program`` is an interpreter and its words. Raises OSError where it cannot be started.
    """
    interpreter, *words = program
    ours: list[list[int]] = []
    ranks: list[RankPlan] = []
    for host, own in zip(hosts, variables, strict=True):
        read, written = zip(*(os.pipe() for _ in ("stdout", "stderr", "status")), strict=True)
        ours.append([*read])
        ranks.append(_planned(host, own, written, realtime=realtime))
    try:
        server = _started(interpreter, ranks, variables[0], group)
    except OSError:
        for end in chain.from_iterable(ours):
            os.close(end)
        raise
    finally:
        # The server has them by now. While they are open here, too, none of ours would ever end.
        for end in _pipes(ranks):
            os.close(end)

    members = [Forked(server, *ends) for ends in ours]
    plan: Plan = {"preload": [*preload], "program": words, "ranks": ranks}
    assert server.stdin
    # A server that fell over at once reads nothing: its ranks' codes say so.
    with suppress(BrokenPipeError), server.stdin:
        server.stdin.write(json.dumps(plan).encode())
    return server, members


def _planned(
    host: Host, environment: Mapping[str, str], written: Sequence[int], *, realtime: bool
) -> RankPlan:
    """A rank on ``host``, and the ends of the pipes that it writes to."""
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


def _started(
    interpreter: str, ranks: Sequence[RankPlan], environment: Mapping[str, str], group: int
) -> subprocess.Popen[bytes]:
    """The server, which has yet to be told its plan."""
    return subprocess.Popen(
        [interpreter, "-c", _SERVER],
        stdin=subprocess.PIPE,
        # What is said at the import, and the words of one that falls over at it.
        stdout=ranks[0]["stdout"],
        stderr=ranks[0]["stderr"],
        env=environment,
        process_group=group,
        pass_fds=_pipes(ranks),
    )
