"""The configuration of a testbed: hosts, the rates of their links, and racks, as in scenarios."""

from __future__ import annotations

import os

from dpsim.topology import RacksConfig, TestbedConfig

__all__ = ["RacksConfig", "TestbedConfig", "load_testbed"]


def load_testbed(path: str | os.PathLike[str]) -> TestbedConfig:
    """Return the testbed that a YAML file describes.

    Raises ScenarioError with file, line and column of each problem.
    """
    from dpsim.scenario import load

    return load(path, TestbedConfig)
