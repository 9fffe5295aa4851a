"""Tests marked testbed need network namespaces with limited links: where there are none they are skipped, in CI they fail."""

import os
from functools import cache

import pytest

from validate import testbed


@cache
def missing():
    """What this machine lacks for a testbed, or nothing."""
    try:
        with testbed.Testbed(testbed.TestbedConfig(hosts=2)):
            return ""
    except testbed.TestbedError as error:
        return str(error)


def pytest_runtest_setup(item):
    if item.get_closest_marker("testbed") and missing():
        if os.environ.get("CI") == "true":
            pytest.fail(f"CI must have a testbed: {missing()}", pytrace=False)
        pytest.skip(missing())
