"""Hosts with links of known rates on this machine.

Linux network namespaces in which real processes communicate over real TCP.

    with Testbed(TestbedConfig(hosts=4, rate="100 Mbit/s")) as testbed:
        launch(command, testbed.hosts)          # from validate.ranks.launch

The testbed is taken down however the block ends: normally, by an exception, Ctrl-C, SIGTERM or
SIGHUP. The remains of a testbed whose process was killed with kill -9 are removed when the next one
starts. It needs Linux, root, and ``ip`` and ``tc`` (Debian: iproute2); TestbedError says which part
is missing.
"""

from dpsim.topology import RacksConfig, TestbedConfig, goodput_fraction
from validate.ranks.testbed.check import CheckRow, check, nominal_s
from validate.ranks.testbed.iproute2 import TestbedError
from validate.ranks.testbed.leftovers import remove_leftovers
from validate.ranks.testbed.testbed import Testbed, load_testbed, parse_testbed
from validate.ranks.testbed.wiring import burst_bytes

__all__ = [
    "CheckRow",
    "RacksConfig",
    "Testbed",
    "TestbedConfig",
    "TestbedError",
    "burst_bytes",
    "check",
    "goodput_fraction",
    "load_testbed",
    "nominal_s",
    "parse_testbed",
    "remove_leftovers",
]
