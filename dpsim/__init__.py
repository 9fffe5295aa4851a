"""Predicts how long a data-parallel training step takes, where the time goes, what would change it."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dpsim.base.errors import DpsimError, ScenarioError
    from dpsim.engine import Result, simulate
    from dpsim.scenario import Scenario, load_scenario
    from dpsim.studies.sweep import sweep

__all__ = [
    "DpsimError",
    "Result",
    "Scenario",
    "ScenarioError",
    "load_scenario",
    "simulate",
    "sweep",
]

_HOMES = {
    "DpsimError": "dpsim.base.errors",
    "Result": "dpsim.engine",
    "Scenario": "dpsim.scenario",
    "ScenarioError": "dpsim.base.errors",
    "load_scenario": "dpsim.scenario",
    "simulate": "dpsim.engine",
    "sweep": "dpsim.studies.sweep",
}


def __getattr__(name: str) -> Any:
    """Load a public name when it is first asked for, so that ``import dpsim`` is quick."""
    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), name)
    raise AttributeError(f"module 'dpsim' has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
