"""The testbed: set up at the start of a ``with`` block, taken down at any end of it.

Signals that end a program are raised as exceptions, so that they leave the block in order, or are
deferred while namespaces are made or removed.
"""

from __future__ import annotations

import os
import secrets
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any, Self
from weakref import finalize

from dpsim.base.errors import DpsimError, ScenarioError
from dpsim.topology import TestbedConfig
from validate.ranks.launch import Host
from validate.ranks.testbed.iproute2 import check_machine
from validate.ranks.testbed.leftovers import name_prefix, namespaces, remove, remove_leftovers
from validate.ranks.testbed.wiring import INTERFACE, address, build


class Testbed:
    """Hosts on this machine, each with its own network namespace and its own limited link.

    They share the machine's processors. ``hosts`` exist inside the ``with`` block, numbered as in
    the configuration; `validate.ranks.launch.launch` puts ranks on them. Entering raises
    TestbedError if the machine lacks something. Leaving kills all processes on the hosts.
    """

    def __init__(self, config: TestbedConfig | None = None) -> None:
        self.config = config or TestbedConfig()
        self._prefix = name_prefix(secrets.token_hex(4))
        self._signals = ExitStack()

    @property
    def hosts(self) -> tuple[Host, ...]:
        """The hosts, in order."""
        return tuple(self._host(number) for number in range(self.config.hosts))

    def __enter__(self) -> Self:
        check_machine()
        self._signals.enter_context(ends_in_order())
        # For a signal between the block's end and the clean-up, which then happens at the program's
        # end.
        self._at_exit = finalize(self, _remove_own, self._prefix, os.getpid())
        try:
            with held_back():
                remove_leftovers()
                build(self.config, self._prefix)
        except BaseException:
            self._take_down()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._take_down()

    def _take_down(self) -> None:
        with self._signals, held_back():
            _remove_own(self._prefix, os.getpid())
            self._at_exit.detach()

    def _host(self, number: int) -> Host:
        name = f"host{number}"
        return Host(
            name,
            address(number),
            INTERFACE,
            f"{self._prefix}{name}",
            realtime=True,
        )


def _remove_own(prefix: str, owner: int) -> None:
    """Remove the namespaces whose names begin with ``prefix``.

    Does nothing in a fork of the process that owns them.
    """
    if os.getpid() != owner:
        return
    with held_back():
        remove(name for name in namespaces() if name.startswith(prefix))


def load_testbed(path: str | os.PathLike[str]) -> TestbedConfig:
    """Return the testbed that a YAML file describes.

    Raises ScenarioError with file, line and column of each problem.
    """
    from dpsim.scenario import load

    return load(path, TestbedConfig)


_KEYS = ("hosts", "rate", "mtu")


def parse_testbed(text: str) -> TestbedConfig:
    """Return the testbed of a YAML file, or of ``hosts=4,rate=100 Mbit/s``.

    Raises ScenarioError or DpsimError.
    """
    from dpsim.scenario import Document, validate

    if text.endswith((".yaml", ".yml")):
        return load_testbed(text)
    fields: dict[str, Any] = {}
    for part in text.split(","):
        key, equals, value = (each.strip() for each in part.partition("="))
        if not equals or key not in _KEYS:
            raise DpsimError(
                f"--testbed must be a YAML file, or {', '.join(f'{one}=...' for one in _KEYS)}, "
                f"but got {part.strip()!r}"
            )
        fields[key] = int(value) if key != "rate" and value.isdecimal() else value
    try:
        return validate(Document.of(fields, "--testbed"), TestbedConfig)
    except ScenarioError as error:
        raise DpsimError(str(error)) from None


_ENDINGS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@contextmanager
def ends_in_order() -> Iterator[None]:
    """Let SIGTERM and SIGHUP raise SystemExit with the shell's code, like SIGINT KeyboardInterrupt.

    Signals that the program handles or ignores by its own choice are left alone. In threads other
    than the main one, which cannot set handlers, nothing changes.
    """
    taken = [
        number
        for number in (signal.SIGTERM, signal.SIGHUP)
        if _is_main_thread() and signal.getsignal(number) is signal.SIG_DFL
    ]
    for number in taken:
        signal.signal(number, lambda number, frame: sys.exit(128 + number))
    try:
        yield
    finally:
        for number in taken:
            signal.signal(number, signal.SIG_DFL)


@contextmanager
def held_back() -> Iterator[None]:
    """Defer SIGINT, SIGTERM and SIGHUP to the end of the block.

    In threads other than the main one nothing changes.
    """
    came: list[int] = []
    numbers = _ENDINGS if _is_main_thread() else ()
    handlers = {
        number: handler
        for number in numbers
        if (handler := signal.getsignal(number)) not in (None, signal.SIG_IGN)
    }
    for number in handlers:
        signal.signal(number, lambda late, frame: came.append(late))
    try:
        yield
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)
        for late in came:
            signal.raise_signal(late)


def _is_main_thread() -> bool:
    return threading.current_thread() is threading.main_thread()
