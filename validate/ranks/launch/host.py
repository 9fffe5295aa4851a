"""Places for ranks: a host of the testbed, or this machine itself."""

from __future__ import annotations

import sys
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Host:
    """A place for ranks: its name, its IP address and interface, and its network namespace, if any.

    ``realtime`` says whether ranks take precedence over all other work of the machine.
    """

    name: str
    address: str
    interface: str
    namespace: str = ""
    realtime: bool = False

    @property
    def prefix(self) -> tuple[str, ...]:
        """The words before a command that run it on the host."""
        return ("ip", "netns", "exec", self.namespace) if self.namespace else ()


LOOPBACK = Host("localhost", "127.0.0.1", "lo0" if sys.platform == "darwin" else "lo")


def loopback(ranks: int) -> tuple[Host, ...]:
    """Return the hosts of a run whose ``ranks`` ranks are all on this machine."""
    return (LOOPBACK,) * ranks
