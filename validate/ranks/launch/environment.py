"""The environment of a rank: the variables that torchrun sets, and where to record rows."""

from __future__ import annotations

import os
import random
import socket
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from validate.ranks.launch.host import Host
from validate.ranks.launch.rows import FOLDER

# Below the ports that Linux gives to outgoing connections (32768 and up), so that none takes it
# before rank 0 listens.
_PORTS = range(20_000, 32_000)


def environments(
    hosts: Sequence[Host], folder: Path, extra: Mapping[str, str]
) -> Iterator[dict[str, str]]:
    """Yield each rank's whole environment: this process's, the rank's variables, then ``extra``."""
    ranks_on = Counter(host.name for host in hosts)
    started_on: Counter[str] = Counter()
    port = free_port()
    for rank, host in enumerate(hosts):
        yield {
            **os.environ,
            "RANK": str(rank),
            "WORLD_SIZE": str(len(hosts)),
            "LOCAL_RANK": str(started_on[host.name]),
            "LOCAL_WORLD_SIZE": str(ranks_on[host.name]),
            "MASTER_ADDR": hosts[0].address,
            "MASTER_PORT": str(port),
            # Gloo would otherwise take the address of the machine's name, which no testbed host
            # has.
            "GLOO_SOCKET_IFNAME": host.interface,
            # Ranks share the cores, as under torchrun, which sets the same value.
            "OMP_NUM_THREADS": "1",
            # Progress is read from the ranks' output line by line.
            "PYTHONUNBUFFERED": "1",
            FOLDER: str(folder),
            **extra,
        }
        started_on[host.name] += 1


def free_port() -> int:
    """Return a random port on which nothing listens here.

    Random, so that concurrent runs rarely collide, on any of their hosts.
    """
    for port in random.SystemRandom().sample(_PORTS, len(_PORTS)):
        with socket.socket() as probe:
            try:
                probe.bind(("", port))
            except OSError:
                continue
            return port
    raise AssertionError("some of 12,000 ports is free")
