"""The testbed: set up at the start of a ``with`` block, taken down at any end of it."""

from __future__ import annotations

import os
import secrets
from contextlib import ExitStack
from typing import Self
from weakref import finalize

from dpsim.topology import TestbedConfig
from validate.ranks.launch import Host
from validate.ranks.testbed.endings import ends_in_order, held_back
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
    if os.getpid() == owner:
        remove(name for name in namespaces() if name.startswith(prefix))


def load_testbed(path: str | os.PathLike[str]) -> TestbedConfig:
    """Return the testbed that a YAML file describes.

    Raises ScenarioError with file, line and column of each problem.
    """
    from dpsim.scenario import load

    return load(path, TestbedConfig)
