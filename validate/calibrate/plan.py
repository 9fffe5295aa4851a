"""The collectives to measure: algorithms and sizes that take minutes in all."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product
from typing import Any

from dpsim.base.errors import DpsimError
from dpsim.collectives import algorithm_names
from dpsim.topology import TestbedConfig
from validate.calibrate.cases import LIBRARY, CollectiveCase
from validate.ranks.testbed import nominal_s

KIB = 1024
# Left out to keep to minutes: trees in chunks, round robin, and two that are rings on such hosts.
_LEFT_OUT = ("pipelined-tree", "double-binary-tree", "round-robin", "hierarchical", "torus-2d")
ALGORITHMS = (LIBRARY, *(name for name in algorithm_names() if name not in _LEFT_OUT))
SIZES = (4 * KIB, 16 * KIB, 64 * KIB, 256 * KIB, 1024 * KIB, 4096 * KIB, 16384 * KIB)

_LONGEST_S = 0.6  # seconds of one repetition: longer ones are left out
_REPETITIONS = ((0.02, 11), (0.1, 7), (_LONGEST_S, 4))  # (most seconds each, repetitions)
_RATES = ("50 Mbit/s", "100 Mbit/s", "200 Mbit/s", "400 Mbit/s")

# No power of two, unequal rates, and racks whose uplinks are slower than their hosts together.
_OTHERS: tuple[dict[str, Any], ...] = (
    {"hosts": 3, "rate": "100 Mbit/s"},
    {"hosts": 6, "rate": "200 Mbit/s"},
    {"hosts": 4, "rate": ["100 Mbit/s", "100 Mbit/s", "100 Mbit/s", "50 Mbit/s"]},
    {"hosts": 3, "rate": ["200 Mbit/s", "100 Mbit/s", "50 Mbit/s"]},
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
)


def full_plan() -> list[CollectiveCase]:
    """Return every algorithm, 4 KiB to 16 MiB, on many testbeds.

    2 to 8 hosts at 50 to 400 Mbit/s, unequal rates, two racks.
    """
    alike = [{"hosts": hosts, "rate": rate} for rate in _RATES for hosts in (2, 4, 8)]
    testbeds = [TestbedConfig.model_validate(settings) for settings in [*alike, *_OTHERS]]
    return [case for testbed in testbeds for case in cases(testbed)]


def own_plan(testbed: TestbedConfig) -> list[CollectiveCase]:
    """Return the cases that calibrate one testbed: every algorithm, small to middle sizes.

    Measuring them takes a minute or two. Raises DpsimError for a testbed of one host.
    """
    if testbed.hosts < 2:
        raise DpsimError(
            f"testbed must have at least 2 hosts to calibrate, but has {testbed.hosts}"
        )
    return list(cases(testbed, sizes=SIZES[:6], longest=0.3))


def cases(
    testbed: TestbedConfig,
    sizes: Sequence[int] = SIZES,
    longest: float = _LONGEST_S,
) -> Iterator[CollectiveCase]:
    """Yield every algorithm at every size on one testbed.

    Cases whose repetition would take more than ``longest`` s are left out.
    """
    for name, size in product(ALGORITHMS, sizes):
        seconds = _about(testbed, name, size)
        if seconds > longest:
            continue
        fitting = [count for most, count in _REPETITIONS if seconds <= most]
        repetitions = fitting[0] if fitting else _REPETITIONS[-1][1]
        yield CollectiveCase(testbed=testbed, algorithm=name, bytes=size, repetitions=repetitions)


def _about(testbed: TestbedConfig, algorithm: str, size: int) -> float:
    """Return a rough estimate of the seconds: the busiest host's bytes at the slowest rate."""
    m = testbed.hosts
    times = {
        "tree": 2 * (m - 1).bit_length(),
        "master-worker": 2 * (m - 1),
        "all-to-all": m - 1,
        "butterfly": (m - 1).bit_length(),
    }
    sent = round(size * times.get(algorithm, 2)) or 1

    # Between the first host and the last one, which is in the other rack if there are two.
    seconds = nominal_s(testbed, [(0, m - 1, sent)])
    if testbed.racks:
        seconds *= max(1, max(testbed.rates) / testbed.racks.uplink)
    return seconds
