"""The testbed's self-check: how long plain TCP takes on its links, beside how long it should take."""

from __future__ import annotations

import json
import statistics
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from validate.ranks.launch import launch
from validate.ranks.testbed.config import TestbedConfig
from validate.ranks.testbed.shaping import burst_bytes, goodput_fraction
from validate.ranks.testbed.testbed import Testbed

_SECONDS = 0.25  # that a pattern should take: a burst's free bytes are 1 % of it

Flow = tuple[int, int, int]


@dataclass(frozen=True, slots=True)
class CheckRow:
    """One pattern of traffic: the bytes of all its flows, and how long until the last one has come.

    Nominal, and the median measured.
    """

    pattern: str
    bytes: int
    nominal_s: float
    measured_s: float
    runs_s: tuple[float, ...]

    @property
    def ratio(self) -> float:
        """Measured over nominal: 1 is what the rates say."""
        return self.measured_s / self.nominal_s

    def to_json(self) -> dict[str, Any]:
        """The row as plain values."""
        return {**asdict(self), "runs_s": list(self.runs_s), "ratio": self.ratio}


def check(testbed: Testbed, repeats: int = 3, timeout_s: float = 60.0) -> list[CheckRow]:
    """Measure the patterns that this testbed has hosts for.

    The nominal time is that of the busiest link at its nominal rate.

    ``flow``: host 0 to 1; ``exchange``: hosts 0 and 1 to each other; ``incast``: all to host 0;
    ``uplink``: every host of the first rack to one of the second; ``link N``, where rates differ:
    host N and the fastest other one to each other. Raises RunFailed.
    """
    patterns = dict(_patterns(testbed.config))
    if not patterns:
        return []
    sized = {name: _sized(testbed.config, flows) for name, flows in patterns.items()}
    runs = [flows for _ in range(repeats) for flows in sized.values()]
    # By its path: its package would bring pydantic, which four ranks on two cores wait a second
    # for.
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
    return [
        _row(testbed.config, name, flows, tuple(took[number :: len(sized)]))
        for number, (name, flows) in enumerate(sized.items())
    ]


def nominal_s(config: TestbedConfig, flows: list[Flow]) -> float:
    """Seconds until the link with the most bytes for its rate has carried them and their headers.

    A first burst takes no time.
    """
    carried: Counter[tuple[str, int]] = Counter()
    rates: dict[tuple[str, int], float] = {}
    rack = {host: number for number, members in enumerate(config.switches) for host in members}
    for source, destination, size in flows:
        ends = [
            ("from", source, config.rates[source]),
            ("to", destination, config.rates[destination]),
        ]
        if config.racks and rack[source] != rack[destination]:
            ends += [
                ("leaving rack", rack[source], config.racks.uplink),
                ("entering rack", rack[destination], config.racks.uplink),
            ]
        for way, number, rate in ends:
            carried[way, number] += size
            rates[way, number] = rate
    fraction = goodput_fraction(config.mtu)
    return max(
        max(0, carried[link] - burst_bytes(rate, config.mtu)) / (rate * fraction)
        for link, rate in rates.items()
    )


def _patterns(config: TestbedConfig) -> Iterator[tuple[str, list[Flow]]]:
    """Names and flows, each of one byte."""
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
            other = max(
                (other for other in hosts if other != host), key=lambda other: config.rates[other]
            )
            yield f"link {host}", [(host, other, 1), (other, host, 1)]


def _sized(config: TestbedConfig, flows: list[Flow]) -> list[Flow]:
    """The flows with as many bytes each as make the pattern take its time."""
    unit = 2**20
    many = [(source, destination, unit) for source, destination, _ in flows]
    size = round(unit * _SECONDS / (nominal_s(config, many) or _SECONDS))
    return [(source, destination, max(size, 2**16)) for source, destination, _ in flows]


def _makespan(rows: list[dict[str, Any]], number: int) -> float:
    rows = [row for row in rows if row["pattern"] == number]
    seconds: float = max(row["ended"] for row in rows if "ended" in row) - min(
        row["began"] for row in rows if "began" in row
    )
    return seconds


def _row(config: TestbedConfig, name: str, flows: list[Flow], took: tuple[float, ...]) -> CheckRow:
    return CheckRow(
        name,
        sum(size for *_, size in flows),
        nominal_s(config, flows),
        statistics.median(took),
        took,
    )
