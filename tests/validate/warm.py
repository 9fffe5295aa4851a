"""A process that has imported what ranks need, of which the fork servers of tests are forks.

To import torch takes a second or two of a processor, and each run of the product's does it once.
`WarmProcess.start` stands in for the `subprocess.Popen` of `validate.ranks.launch.forked`; the
tests of the launcher itself do without it. This file is also the program of that process.
"""

from __future__ import annotations

import fcntl
import json
import os
import re
import select
import socket
import subprocess
import sys
import traceback
from contextlib import ExitStack, suppress
from importlib import import_module
from pathlib import Path
from unittest import mock

ROOT = Path(__file__).parents[2]
# What tests import beside that, in each rank if not here. Torch compiles optimisers at their import.
ALSO = ("torch.distributed.optim", "torch.utils.flop_counter", "numpy.ma")
SCENARIO = Path(__file__).parent / "node" / "small.yaml"
ASKS = ("is_available", "device_count", "init", "_lazy_init", "get_device_properties")
FIXED = ("PYTHONPATH", "OMP_NUM_THREADS")  # an interpreter reads these when it starts
MANY = 240  # descriptors that go in one message


class WarmServer:
    """A fork server that the warm process forked, as a `subprocess.Popen`."""

    def __init__(self, stdin, status):
        self.stdin, self._status, self._code = stdin, status, None
        self.pid = int(self._status.readline())

    def wait(self, timeout=None):
        """Its exit code. Raises TimeoutExpired."""
        if self._code is None:
            if not select.select([self._status], [], [], timeout)[0]:
                raise subprocess.TimeoutExpired("a fork server", timeout)
            self._code = int(self._status.readline())
            self._status.close()
        return self._code


class WarmProcess:
    """Starts with the first requested server, and ends by `close`."""

    PIPE, TimeoutExpired = subprocess.PIPE, subprocess.TimeoutExpired

    def __init__(self):
        self._process = None
        self._environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONUNBUFFERED": "1"}

    def Popen(self, command, *, env, pass_fds, **options):  # noqa: N802 - it stands in for that
        """The requested server: of the warm process, or where that does not fit, a new one."""
        fits = command[0] == sys.executable and len(pass_fds) < MANY
        same = all(env.get(name) == self._environment.get(name) for name in FIXED)
        if not (fits and same):
            return subprocess.Popen(command, env=env, pass_fds=pass_fds, **options)
        return self._forked(env, [*pass_fds], **options)

    def _forked(self, environment, descriptors, *, stdin, stdout, stderr, process_group):
        assert stdin == self.PIPE
        self.imported()
        read, write = os.pipe()
        reported, tell = os.pipe()
        requested = {
            "environment": environment,
            "folder": os.getcwd(),
            "group": process_group,
            "numbers": [0, *descriptors],
            "outputs": [stdout, stderr],
        }
        text = json.dumps(requested).encode()
        sent = [tell, read, *descriptors]
        socket.send_fds(self._control, [len(text).to_bytes(8, "big")], sent)
        self._control.sendall(text)
        os.close(read)
        os.close(tell)
        return WarmServer(os.fdopen(write, "wb"), os.fdopen(reported, "rb", buffering=0))

    def imported(self):
        """What `imported` tells there."""
        if self._process is None:
            self._start()
            self._report = json.loads(_text(self._control, self._control.recv(8)))
        return self._report

    def _start(self):
        self._control, theirs = socket.socketpair()
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, __file__, str(theirs.fileno())],
                env=self._environment,
                stdin=subprocess.DEVNULL,
                # As a server's: what is a pipe cannot be sought in, which Python asks at the start.
                stdout=self.PIPE,
                stderr=self.PIPE,
                pass_fds=[theirs.fileno()],
            )

    def close(self):
        if self._process is not None:
            self._control.close()
            self._process.communicate(timeout=30)


def _text(control, length):
    """A message of which the first eight bytes, ``length``, have come."""
    text = b""
    while len(text) < int.from_bytes(length, "big"):
        text += control.recv(1 << 16)
    return text


def preloaded():
    """Every module that a run of the product preloads, by the places that say so."""
    for file in (ROOT / "validate").rglob("*.py"):
        own = ".".join(file.relative_to(ROOT).with_suffix("").parts)
        for names in re.findall(r"preload ?= ?\[(.*?)\]", file.read_text()):
            for name in names.split(", "):
                yield {"__name__": own, "IMPORTED_LATE": "torch._dynamo"}.get(name, name.strip('"'))


def imported():
    """Import what the product preloads; the number of threads after it, and the calls about GPUs."""
    modules = sorted({*preloaded()} - {"package.module"})
    import torch

    requested = []

    def spied(name):
        usual = getattr(torch.cuda, name)

        def ask(*words, **named):
            requested.append(traceback.format_stack()[-2])
            return usual(*words, **named)

        return mock.patch.object(torch.cuda, name, ask)

    with ExitStack() as stack:
        for name in ASKS:
            stack.enter_context(spied(name))
        for module in modules:
            import_module(module)
    return {
        "modules": modules,
        "threads": len(os.listdir("/proc/self/task")),
        "requested": requested,
    }


def serve(control):
    """Fork a server for each request; true in that server, false at the end of all."""
    while True:
        length, descriptors, _, _ = socket.recv_fds(control, 8, MANY + 2)
        if not length:
            return False
        text = _text(control, length)
        if os.fork() == 0:
            control.close()
            return _watched(json.loads(text), descriptors)
        for each in descriptors:
            os.close(each)
        with suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass


def _watched(requested, descriptors):
    """Fork the server, and write its number and then its exit code to the first descriptor."""
    status, *given = descriptors
    pid = os.fork()
    if pid == 0:
        _become(requested, status, given)
        return True
    for each in given:
        os.close(each)
    _, ended = os.waitpid(pid, 0)
    with suppress(BrokenPipeError):
        os.write(status, b"%d\n" % os.waitstatus_to_exitcode(ended))
    os._exit(0)


def _become(requested, status, given):
    """What `subprocess.Popen` would have made of the server: its descriptors have their numbers."""
    os.setpgid(0, requested["group"])
    beyond = max([*requested["numbers"], *given, status]) + 1
    moved = [fcntl.fcntl(each, fcntl.F_DUPFD, beyond) for each in (status, *given)]
    for each in (status, *given):
        os.close(each)
    for each, number in zip(moved[1:], requested["numbers"], strict=True):
        os.dup2(each, number)
        os.close(each)
    for number, output in enumerate(requested["outputs"], 1):
        os.dup2(output, number)
    os.environ.clear()
    os.environ.update(requested["environment"])
    os.chdir(requested["folder"])
    os.write(moved[0], b"%d\n" % os.getpid())
    os.close(moved[0])


if __name__ == "__main__":
    with socket.socket(fileno=int(sys.argv[1])) as asking:
        reported = json.dumps(imported()).encode()
        for name in ALSO:
            import_module(name)
        # Schemas and the catalogue are read with the first scenario.
        import_module("validate.emulate").Case(str(SCENARIO)).job()
        asking.sendall(len(reported).to_bytes(8, "big") + reported)
        is_server = serve(asking)
    if not is_server:
        os._exit(0)  # at once: nothing here has an end of its own
    from validate.ranks.launch.fork_server import main

    main()
