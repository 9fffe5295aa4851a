"""Names of namespaces, which identify their owner, and removal of those whose owner is dead.

The names are the only state: ``dpsim-PID-START-TOKEN-host0``, where START is when the process PID
started, in clock ticks since boot, so that another process with the same number is not mistaken for
it.
"""

from __future__ import annotations

import os
import re
import signal
import time
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from validate.ranks.testbed.iproute2 import TestbedError, run

_NAMESPACES = Path("/var/run/netns")
_NAME = re.compile(r"dpsim-(?P<pid>\d+)-(?P<start>\d+)-[0-9a-f]+-\w+")
_PATIENCE_S = 5.0


def name_prefix(token: str) -> str:
    """Return the prefix of the names of this process's namespaces.

    ``token``, in hex, distinguishes its testbeds.
    """
    return f"dpsim-{os.getpid()}-{_start_time(os.getpid())}-{token}-"


def namespaces() -> list[str]:
    """Return the names of all namespaces of testbeds on this machine, sorted."""
    found = os.listdir(_NAMESPACES) if _NAMESPACES.is_dir() else []
    return sorted(name for name in found if _NAME.fullmatch(name))


def remove_leftovers() -> list[str]:
    """Remove the namespaces of testbeds whose process is dead, and return their names.

    Their processes and links go with them. Raises TestbedError if one cannot be removed.
    """
    dead = [name for name in namespaces() if not _owner_lives(name)]
    remove(dead)
    return dead


def remove(names: Iterable[str]) -> None:
    """Kill the processes in these namespaces and remove them with their links.

    Raises TestbedError, after trying all.
    """
    errors = []
    for name in names:
        try:
            _kill_all(name)
            run("namespaces that can be removed", ["ip", "netns", "delete", name])
        except TestbedError as error:
            if (
                _NAMESPACES / name
            ).exists():  # else another testbed's start has removed it meanwhile
                errors.append(error)
    if errors:
        raise errors[0]


def _kill_all(name: str) -> None:
    """Kill processes in a namespace until there are none."""
    end = time.monotonic() + _PATIENCE_S
    # Repeated, since a killed process may have started another one meanwhile.
    while pids := _pids(name):
        if time.monotonic() > end:
            raise TestbedError(
                f"namespace {name}: its processes must end when killed, but {pids} did not in "
                f"{_PATIENCE_S:g} s"
            )
        for pid in pids:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(0.01)


def _pids(name: str) -> list[int]:
    """Return the processes in a namespace.

    A name without a namespace, of a testbed that died while creating it, has none.
    """
    if not os.path.ismount(_NAMESPACES / name):
        return []
    return [int(pid) for pid in run("network namespaces", ["ip", "netns", "pids", name]).split()]


def _owner_lives(name: str) -> bool:
    match = _NAME.fullmatch(name)
    assert match
    return _start_time(int(match["pid"])) == match["start"]


def _start_time(pid: int) -> str | None:
    """Return when a process started, in clock ticks since boot; None if there is none.

    Field 22 of ``stat`` in proc(5).
    """
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return None
    state, *fields = stat.rpartition(")")[
        2
    ].split()  # a program's name may hold spaces and brackets
    # The state is field 3, so field 22 is number 18 of those after it. A zombie owns nothing.
    return None if state in "ZX" else fields[18]
