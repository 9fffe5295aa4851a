"""Scenario files: the schema, the loader and its errors."""

from __future__ import annotations

import os
from collections.abc import Iterable

from dpsim.scenario.cost import CostConfig
from dpsim.scenario.loader import load as _load
from dpsim.scenario.schema import ComputeScale, DisturbanceConfig, MeasuredStep, RunConfig, Scenario, StrategyConfig

__all__ = [
    "ComputeScale",
    "CostConfig",
    "DisturbanceConfig",
    "MeasuredStep",
    "RunConfig",
    "Scenario",
    "StrategyConfig",
    "load_scenario",
]


def load_scenario(path: str | os.PathLike[str], overrides: Iterable[str] = ()) -> Scenario:
    """The scenario in the YAML file at ``path``, with ``key=value`` overrides (dotted paths) applied.

    Raises ScenarioError with every problem in the file, each with line, column, path and rule.
    """
    return _load(path, Scenario, overrides)
