"""The process from which ranks are forked, with their common modules imported once.

Importing torch takes a second or two of a processor. A fork has it already, in memory that all
ranks share. ``python -m validate.ranks.launch.fork_server`` reads a plan from stdin (`Plan`),
written by `validate.ranks.launch.forked`. It has no threads, opens no connection and uses no GPU: a
fork would inherit them, and CUDA refuses to work in one.
"""

from __future__ import annotations

import atexit
import ctypes
import gc
import json
import os
import runpy
import sys
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import TypedDict

PRIORITY = 5
"""The priority, in the class ``SCHED_FIFO``, of ranks that precede all other work."""

_NEW_NETWORK = 0x40000000  # CLONE_NEWNET of setns(2), which os has from Python 3.12 on


class RankPlan(TypedDict):
    """One rank: its whole environment, where it runs, and its output pipes."""

    environment: dict[str, str]
    namespace: str
    realtime: bool
    stdout: int
    stderr: int
    status: int


class Plan(TypedDict):
    """The input of a fork server: modules to import, the program's arguments, ranks in order."""

    preload: list[str]
    program: list[str]
    ranks: list[RankPlan]


def main() -> None:
    """Import, fork all ranks, and report their ends; in a rank, run the program."""
    well: list[bool] = []
    # Registered first and so called last: after the program's handlers and those of the imports.
    atexit.register(_leave, well)
    plan: Plan = json.load(sys.stdin)
    # A failing import fails again in each rank, which reports it in its own output.
    for module in plan["preload"]:
        with suppress(Exception):
            import_module(module)
    # Keeps imported objects out of garbage collection, which would copy their pages.
    gc.freeze()
    if _fork(plan["ranks"]):
        # Outside the function, so that the rank ends like any interpreter: by error, exit code,
        # atexit.
        try:
            _run(plan["program"])
        except SystemExit as end:
            if end.code not in (None, 0):
                raise
    well.append(True)


def _leave(well: list[bool]) -> None:
    """Exit at once if all went well, after flushing the output but without freeing objects.

    Freeing every object takes half a second of CPU time, since a fork must first copy their memory.
    """
    if well:
        sys.stdout.flush()
        sys.stderr.flush()
        ctypes.CDLL(None).fflush(None)  # output of C libraries
        os._exit(0)


def _fork(ranks: list[RankPlan]) -> bool:
    """Fork the ranks and wait for their ends; return True in a rank, at once."""
    status_of: dict[int, int] = {}
    for rank in ranks:
        pid = os.fork()
        if pid == 0:
            _become(rank, ranks)
            return True
        status_of[pid] = rank["status"]
        _report(rank["status"], pid)
    while status_of:
        pid, status = os.wait()
        ended = status_of.pop(pid)
        _report(ended, os.waitstatus_to_exitcode(status))
        os.close(ended)
    return False


def _report(status: int, number: int) -> None:
    # If the launcher is gone, its keeper ends this group.
    with suppress(BrokenPipeError):
        os.write(status, b"%d\n" % number)


def _become(rank: RankPlan, ranks: list[RankPlan]) -> None:
    """Make this fork the process that the launcher would have started for ``rank``."""
    os.environ.clear()
    os.environ.update(rank["environment"])
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.dup2(rank["stdout"], 1)
    os.dup2(rank["stderr"], 2)
    for other in ranks:
        for pipe in (other["stdout"], other["stderr"], other["status"]):
            # The rank's own status pipe stays open, so that the launcher sees when the rank is
            # gone.
            if pipe == rank["status"]:
                os.set_inheritable(pipe, False)
            else:
                with suppress(OSError):  # the server has closed those of ended ranks
                    os.close(pipe)
    if rank["namespace"]:
        _enter(Path("/run/netns", rank["namespace"]))
    if rank["realtime"]:
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(PRIORITY))


def _enter(namespace: Path) -> None:
    """Enter a network namespace, like ``ip netns exec``."""
    libc = ctypes.CDLL(None, use_errno=True)
    with namespace.open() as file:
        if libc.setns(file.fileno(), _NEW_NETWORK):
            raise OSError(ctypes.get_errno(), f"no way into {namespace}")


def _run(program: list[str]) -> None:
    """Run ``-m MODULE WORD...`` or ``SCRIPT WORD...`` as the main program."""
    if program[0] == "-m":
        sys.argv = program[1:]
        sys.path[0] = os.getcwd()
        runpy.run_module(program[1], run_name="__main__", alter_sys=True)
    else:
        sys.argv = program
        sys.path[0] = str(Path(program[0]).resolve().parent)
        runpy.run_path(program[0], run_name="__main__")


if __name__ == "__main__":
    main()
