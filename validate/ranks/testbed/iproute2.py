"""Runs ``ip`` and ``tc``; errors name the part of the kernel or machine that the testbed lacks."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterable, Sequence

from dpsim.base.errors import FailedError


class TestbedError(FailedError):
    """The testbed cannot be built here; the message says what is missing."""


def check_machine() -> None:
    """Raise TestbedError unless this is root on Linux with ``ip`` and ``tc``."""
    if not sys.platform.startswith("linux"):
        raise TestbedError(
            "the testbed must have Linux, whose network namespaces it is made of, but this is "
            f"{sys.platform}"
        )
    if os.geteuid() != 0:
        raise TestbedError(
            f"the testbed must be started by root, but got user id {os.geteuid()}: try sudo"
        )
    for tool in ("ip", "tc"):
        if shutil.which(tool) is None:
            raise TestbedError(
                f"the testbed must have the program {tool}, but PATH has none (Debian: apt-get "
                "install iproute2)"
            )


def run(part: str, command: Sequence[str], text: str = "") -> str:
    """Return the stdout of a command that gets ``text`` on stdin.

    If it fails, the error names ``part`` as missing. Raises TestbedError.
    """
    # In a session of its own: Ctrl-C at a terminal, which all its processes get, must not end it.
    done = subprocess.run(
        command, input=text, capture_output=True, text=True, check=False, start_new_session=True
    )
    if done.returncode:
        reason = " ".join((done.stderr or done.stdout).split()) or f"exit code {done.returncode}"
        raise TestbedError(
            f"the testbed must have {part}, but '{' '.join(command)}' failed: {reason}"
        )
    return done.stdout


def batch(part: str, tool: str, namespace: str, lines: Iterable[str]) -> None:
    """Run many lines of ``ip`` or ``tc`` in a namespace, stopping at the first that fails.

    Raises TestbedError.
    """
    run(part, [tool, "-n", namespace, "-batch", "-"], "".join(f"{line}\n" for line in lines))
