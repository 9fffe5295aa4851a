"""The ranks of a run as one process group, which ends as a whole, however the launcher ends."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Self

from dpsim.base.errors import DpsimError
from validate.ranks.launch.forked import Process, start_forked
from validate.ranks.launch.host import Host

# Its stdin is a pipe from the launcher, which the kernel closes however the launcher ends: it then
# kills its own group.
_KEEPER = "read -r _; kill -KILL 0"

_PATIENCE_S = 2.5  # a killed process is gone at once unless the kernel blocks it


class ProcessGroup:
    """A process group for the time of a ``with`` block; all its members are killed at the end.

    A keeper leads the group: a shell that waits for the launcher's end. Ranks join the group before
    they run anything, so a launcher that is killed never leaves one behind.
    """

    def __enter__(self) -> Self:
        keeper = ["/bin/sh", "-c", _KEEPER]
        self._keeper = subprocess.Popen(
            keeper, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, process_group=0
        )
        self.processes: list[Process] = []
        self._servers: list[subprocess.Popen[bytes]] = []
        return self

    def start(
        self, command: Sequence[str], environment: Mapping[str, str]
    ) -> subprocess.Popen[bytes]:
        """Start a member without stdin, its stdout and stderr as pipes.

        Raises DpsimError if it cannot be started.
        """
        try:
            process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                env=environment,
                process_group=self._keeper.pid,
            )
        except OSError as error:
            raise _not_running(command, error) from None
        self.processes.append(process)
        return process

    def fork(
        self,
        command: Sequence[str],
        preload: Sequence[str],
        hosts: Sequence[Host],
        environments: Sequence[Mapping[str, str]],
        *,
        realtime: bool,
    ) -> None:
        """Start a member on each of ``hosts``, all of them forks with ``preload`` imported.

        Raises DpsimError if they cannot be started.
        """
        try:
            server, members = start_forked(
                command, preload, hosts, environments, realtime=realtime, group=self._keeper.pid
            )
        except OSError as error:
            raise _not_running(command, error) from None
        self._servers.append(server)
        self.processes.extend(members)

    def kill(self, within_s: float) -> list[int]:
        """Kill every member, and wait until those started here are gone.

        Returns the process ids of those still there after ``within_s``.
        """
        with suppress(ProcessLookupError):
            os.killpg(self._keeper.pid, signal.SIGKILL)
        # Waited for, or they would remain as zombies.
        end = time.monotonic() + within_s
        for process in (*self._servers, *self.processes, self._keeper):
            with suppress(subprocess.TimeoutExpired):
                process.wait(max(0.0, end - time.monotonic()))
        return [process.pid for process in self.processes if process.poll() is None]

    def __exit__(self, *_: object) -> None:
        self.kill(_PATIENCE_S)
        for process in (*self.processes, self._keeper):
            for pipe in (process.stdin, process.stdout, process.stderr):
                if pipe:
                    pipe.close()


def _not_running(command: Sequence[str], error: OSError) -> DpsimError:
    return DpsimError(f"{command[0]}: must be a program that runs, but: {error.strerror}")
