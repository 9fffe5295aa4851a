"""Duplex factors from messages.

What made the measurements is found again.
"""

import numpy as np
import pytest

from dpsim.base.errors import DpsimError
from dpsim.hardware.calibration import Transport
from dpsim.topology import TestbedConfig
from validate.calibrate.messages import (
    Messages,
    fit_duplex,
    predicted_message_s,
)

KIB = 1024
SIZES = (4 * KIB, 64 * KIB, 256 * KIB, 1024 * KIB, 4096 * KIB)
TWO = TestbedConfig.model_validate({"hosts": 2, "rate": "100 Mbit/s"})
PLAIN = {"latency": 1e-4, "efficiency": 0.95}
DETAILED = {
    **PLAIN,
    "burst": 16384 / 6.25e6,
    "cores": 2,
    "queue": 16384.0,
    "window": 120e3,
    "stall": 0.003,
}


def measured(transport, testbed=TWO, noise=0.01):
    generator = np.random.default_rng(1)
    found = []
    for size in SIZES:
        for both_ways in (False, True):
            seconds = predicted_message_s(Messages(testbed, size, both_ways, (1.0,)), transport)
            found.append(
                Messages(
                    testbed,
                    size,
                    both_ways,
                    tuple(seconds * generator.uniform(1 - noise, 1 + noise, 7)),
                )
            )
    return found


@pytest.mark.parametrize("duplex", [0.5, 0.8, 1.0])
@pytest.mark.parametrize("rest", [PLAIN, DETAILED], ids=["plain", "detailed"])
def test_the_duplex_factor_is_found_again(rest, duplex):
    found = fit_duplex(
        measured(Transport.model_validate({**rest, "duplex": duplex})),
        Transport.model_validate(rest),
    )
    assert found.value == pytest.approx(duplex, abs=0.02)
    assert found.low - 0.01 <= duplex <= found.high + 0.01
    assert found.high - found.low < 0.06


def test_halves_of_the_duplex_take_twice_as_long_both_ways_but_not_one_way():
    sent = {
        (duplex, both_ways): predicted_message_s(
            Messages(TWO, 4096 * KIB, both_ways, (1.0,)),
            Transport.model_validate({**PLAIN, "latency": 0.0, "duplex": duplex}),
        )
        for duplex in (0.5, 1.0)
        for both_ways in (False, True)
    }
    assert sent[0.5, True] == pytest.approx(2 * sent[1.0, True], rel=1e-6)
    assert sent[0.5, False] == sent[1.0, False] == pytest.approx(sent[1.0, True])


def test_too_few_sizes_are_reported():
    rows = [one for one in measured(Transport.model_validate(PLAIN)) if one.nbytes < 256 * KIB]
    with pytest.raises(DpsimError, match="one way and both ways of two sizes from 256 KiB on"):
        fit_duplex(rows, Transport.model_validate(PLAIN))


def test_two_hosts_of_different_racks_keep_the_uplink_between_them():
    from validate.calibrate.messages import _pair

    racks = TestbedConfig.model_validate(
        {
            "hosts": 4,
            "rate": ["100 Mbit/s", "50 Mbit/s", "100 Mbit/s", "100 Mbit/s"],
            "racks": {"racks": [[0, 1], [2, 3]]},
        }
    )
    near, far = _pair(racks, 0, 1), _pair(racks, 1, 2)
    assert (near.racks, near.rates) == (None, (12.5e6, 6.25e6))
    assert far.racks.racks == ((0,), (1,))
    assert far.racks.uplink == racks.racks.uplink
