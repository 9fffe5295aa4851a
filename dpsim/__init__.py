"""Predicts how long a data-parallel training step takes and what would change it."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dpsim.base.errors import DpsimError, ScenarioError
    from dpsim.base.provenance import __version__
    from dpsim.engine import Result, simulate
    from dpsim.scenario import Scenario, load_scenario
    from dpsim.studies.sweep import sweep
else:
    from dpsim.base.lazy import on_demand

    __getattr__, __dir__ = on_demand(__name__, __file__)

__all__ = [
    "DpsimError",
    "Result",
    "Scenario",
    "ScenarioError",
    "__version__",
    "load_scenario",
    "simulate",
    "sweep",
]
