"""Which collectives are measured: algorithms and sizes, as far as they take a bearable time."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from dpsim.base.errors import DpsimError
from dpsim.topology import TestbedConfig
from validate.calibrate.cases import LIBRARY, CollectiveCase
from validate.ranks.testbed import nominal_s

KIB = 1024
ALGORITHMS = (
    LIBRARY,
    "ring",
    "halving-doubling",
    "butterfly",
    "tree",
    "all-to-all",
    "master-worker",
    "swing",
)
SIZES = (4 * KIB, 16 * KIB, 64 * KIB, 256 * KIB, 1024 * KIB, 4096 * KIB, 16384 * KIB)

_LONGEST = 0.6  # seconds of one repetition: longer ones are left out
_REPETITIONS = ((0.02, 11), (0.1, 7), (_LONGEST, 4))  # up to so many seconds, so many
_RATES = ("50 Mbit/s", "100 Mbit/s", "200 Mbit/s", "400 Mbit/s")


def full_plan() -> list[CollectiveCase]:
    """2 to 8 hosts at 50 to 400 Mbit/s, unequal rates, two racks; every algorithm, 4 KiB to 16 MiB."""
    others: list[dict[str, Any]]
    alike = [
        TestbedConfig.model_validate({"hosts": hosts, "rate": rate})
        for rate in _RATES
        for hosts in (2, 4, 8)
    ]
    others = [{"hosts": 3, "rate": "100 Mbit/s"}, {"hosts": 6, "rate": "200 Mbit/s"}]
    others += [
        {"hosts": len(rates), "rate": [f"{rate} Mbit/s" for rate in rates]}
        for rates in ((100, 100, 100, 50), (200, 100, 50))
    ]
    others += [
        {
            "hosts": 4,
            "rate": "200 Mbit/s",
            "racks": {"racks": ((0, 1), (2, 3)), "uplink": "100 Mbit/s"},
        },
        {
            "hosts": 6,
            "rate": "100 Mbit/s",
            "racks": {"racks": ((0, 1, 2), (3, 4, 5)), "uplink": "100 Mbit/s"},
        },
    ]
    testbeds = [*alike, *(TestbedConfig.model_validate(other) for other in others)]
    return [case for testbed in testbeds for case in cases(testbed)]


def own_plan(testbed: TestbedConfig) -> list[CollectiveCase]:
    """What is measured to calibrate one testbed: every algorithm, small to middle sizes.

    It takes a minute or two. Raises DpsimError for a testbed of one host.
    """
    if testbed.hosts < 2:
        raise DpsimError(
            f"testbed must have at least 2 hosts to calibrate, but has {testbed.hosts}"
        )
    return list(cases(testbed, sizes=SIZES[:6], longest=0.3))


def cases(
    testbed: TestbedConfig,
    algorithms: Iterable[str] = ALGORITHMS,
    sizes: Sequence[int] = SIZES,
    longest: float = _LONGEST,
) -> Iterator[CollectiveCase]:
    """Every algorithm at every size on one testbed.

    What would take more than ``longest`` s a repetition is left out.
    """
    for name in algorithms:
        for size in sizes:
            seconds = _about(testbed, name, size)
            repetitions = next(
                (count for most, count in _REPETITIONS if seconds <= most), _REPETITIONS[-1][1]
            )
            if seconds <= longest:
                yield CollectiveCase(
                    testbed=testbed, algorithm=name, bytes=size, repetitions=repetitions
                )


def _about(testbed: TestbedConfig, algorithm: str, size: int) -> float:
    """Seconds by rough count: what the busiest host sends, at the slowest rate."""
    m = testbed.hosts
    times = {
        "tree": 2 * (m - 1).bit_length(),
        "master-worker": 2 * (m - 1),
        "all-to-all": m - 1,
        "butterfly": (m - 1).bit_length(),
    }
    return nominal_s(testbed, [(0, m - 1, round(size * times.get(algorithm, 2)) or 1)]) * (
        1 if not testbed.racks else max(1, max(testbed.rates) / testbed.racks.uplink)
    )
