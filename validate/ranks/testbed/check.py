"""The testbed's self-check: measured and nominal times of plain TCP on its links."""

from __future__ import annotations

import json
import statistics
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from dpsim.topology import TestbedConfig, goodput_fraction
from validate.ranks.launch import launch
from validate.ranks.testbed.testbed import Testbed
from validate.ranks.testbed.wiring import burst_bytes

_SECONDS = 0.25  # target time of a pattern: the free bytes of a burst are 1 % of it

Flow = tuple[int, int, int]


@dataclass(frozen=True, slots=True)
class CheckRow:
    """One pattern of traffic: the bytes of all its flows, and the seconds until the last is done.

    Nominal, and the median measured.
    """

    pattern: str
    bytes: int
    nominal_s: float
    measured_s: float
    runs_s: tuple[float, ...]

    @property
    def ratio(self) -> float:
        """Measured over nominal: 1 if the rates are as configured."""
        return self.measured_s / self.nominal_s

    def to_json(self) -> dict[str, Any]:
        """Return the row as plain values."""
        return {**asdict(self), "runs_s": list(self.runs_s), "ratio": self.ratio}


def check(testbed: Testbed, repeats: int = 3, timeout_s: float = 60.0) -> list[CheckRow]:
    """Measure the patterns for which this testbed has enough hosts.

    The nominal time is that of the busiest link at its nominal rate.

    ``flow``: host 0 to 1; ``exchange``: hosts 0 and 1 to each other; ``incast``: all to host 0;
    ``uplink``: every host of the first rack to one of the second; ``link N``, if rates differ: host
    N and the fastest other one to each other. Raises RunFailed.
    """
    patterns = dict(_patterns(testbed.config))
    if not patterns:
        return []
    sized = {name: _size(testbed.config, flows) for name, flows in patterns.items()}
    runs = [flows for _ in range(repeats) for flows in sized.values()]
    # By its path: its package would import pydantic, which takes four ranks on two cores a second.
    addresses = [host.address for host in testbed.hosts]
    command = [
        sys.executable,
        "-P",
        str(Path(__file__).with_name("probe.py")),
        json.dumps(runs),
        json.dumps(addresses),
    ]
    rows = launch(command, testbed.hosts, timeout_s=timeout_s, connect_timeout_s=timeout_s / 2).rows
    took = [_makespan(rows, number) for number in range(len(runs))]
    checks = []
    for number, (name, flows) in enumerate(sized.items()):
        # Slow moments of the machine then affect runs of several patterns, not all of one.
        of_pattern = tuple(took[number :: len(sized)])  # patterns take turns
        checks.append(
            CheckRow(
                name,
                sum(size for *_, size in flows),
                nominal_s(testbed.config, flows),
                statistics.median(of_pattern),
                of_pattern,
            )
        )
    return checks


def nominal_s(config: TestbedConfig, flows: list[Flow]) -> float:
    """Return the seconds until the busiest link has carried all its bytes and their headers.

    A first burst takes no time.
    """
    carried: Counter[tuple[str, int]] = Counter()
    rates: dict[tuple[str, int], float] = {}
    rack = {host: number for number, members in enumerate(config.switches) for host in members}
    for source, destination, size in flows:
        # A flow passes its sender's link and its receiver's, and between racks both uplinks.
        links = {
            ("from", source): config.rates[source],
            ("to", destination): config.rates[destination],
        }
        if config.racks and rack[source] != rack[destination]:
            links["leaving rack", rack[source]] = config.racks.uplink
            links["entering rack", rack[destination]] = config.racks.uplink
        rates |= links
        carried.update(dict.fromkeys(links, size))
    fraction = goodput_fraction(config.mtu)
    seconds = []
    for link, rate in rates.items():
        limited = max(0, carried[link] - burst_bytes(rate, config.mtu))
        seconds.append(limited / (rate * fraction))
    return max(seconds)


def _patterns(config: TestbedConfig) -> Iterator[tuple[str, list[Flow]]]:
    """Yield names and flows, each of one byte."""
    hosts = range(config.hosts)
    if len(hosts) < 2:
        return
    yield "flow", [(0, 1, 1)]
    yield "exchange", [(0, 1, 1), (1, 0, 1)]
    if len(hosts) > 2:
        yield "incast", [(host, 0, 1) for host in hosts[1:]]
    if config.racks:
        first, second, *_ = config.switches
        yield "uplink", [(host, second[place % len(second)], 1) for place, host in enumerate(first)]
    if len(set(config.rates)) > 1:
        for host in hosts:
            others = [other for other in hosts if other != host]
            fastest = max(others, key=lambda other: config.rates[other])
            yield f"link {host}", [(host, fastest, 1), (fastest, host, 1)]


def _size(config: TestbedConfig, flows: list[Flow]) -> list[Flow]:
    """Return the flows with the number of bytes that makes the pattern take its target time."""
    unit = 2**20
    many = [(source, destination, unit) for source, destination, _ in flows]
    size = round(unit * _SECONDS / (nominal_s(config, many) or _SECONDS))
    return [(source, destination, max(size, 2**16)) for source, destination, _ in flows]


def _makespan(rows: list[dict[str, Any]], number: int) -> float:
    """Return the seconds from the first sender's start to the last receiver's end in a run."""
    of_run = [row for row in rows if row["pattern"] == number]
    began: float = min(row["began"] for row in of_run if "began" in row)
    ended: float = max(row["ended"] for row in of_run if "ended" in row)
    return ended - began
