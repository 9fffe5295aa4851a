"""dpsim predicts how long a data-parallel training step takes on a cluster, where the time goes and what would change it."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from dpsim.sweep import sweep  # before its package could take the name; it is light, and loads the rest when it is called

if TYPE_CHECKING:
    from dpsim.engine import Result, simulate
    from dpsim.errors import DpsimError, ScenarioError
    from dpsim.scenario import Scenario, load_scenario

__all__ = ["DpsimError", "Result", "Scenario", "ScenarioError", "load_scenario", "simulate", "sweep"]

_HOMES = {
    "DpsimError": "dpsim.errors",
    "Result": "dpsim.engine",
    "Scenario": "dpsim.scenario",
    "ScenarioError": "dpsim.errors",
    "load_scenario": "dpsim.scenario",
    "simulate": "dpsim.engine",
}


def __getattr__(name: str) -> Any:
    """Load a public name when it is first asked for, so that ``import dpsim`` is quick."""
    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), name)
    raise AttributeError(f"module 'dpsim' has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
