"""What a testbed is to be: hosts, the rates of their links, and racks, as scenarios say it."""

from __future__ import annotations

import os

from dpsim.topology import RacksConfig, TestbedConfig

__all__ = ["RacksConfig", "TestbedConfig", "load_testbed"]


def load_testbed(path: str | os.PathLike[str]) -> TestbedConfig:
    """The testbed that a YAML file describes.

    Raises ScenarioError with file, line and column of each problem.
    """
    from dpsim.scenario import load

    return load(path, TestbedConfig)
