"""Predicts how long a data-parallel training step takes and what would change it.

The names in ``__all__`` are stable: docs/python.md explains this.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dpsim.base.errors import DpsimError, FailedError, ScenarioError
    from dpsim.base.provenance import __version__
    from dpsim.commands.functions import advise, collective, explain, memory
    from dpsim.engine import MemoryUse, Result, simulate
    from dpsim.scenario import Scenario, load_scenario
    from dpsim.studies.advise import Advice
    from dpsim.studies.collective import CollectiveTimes
    from dpsim.studies.compare import Comparison, Scaling, compare, scale
    from dpsim.studies.explain import Explanation
    from dpsim.studies.sweep import Sweep, sweep
    from dpsim.studies.tune import Limits, Tuning, tune
else:
    from dpsim.base.lazy import on_demand

    __getattr__, __dir__ = on_demand(__name__, __file__)

__all__ = [
    "Advice",
    "CollectiveTimes",
    "Comparison",
    "DpsimError",
    "Explanation",
    "FailedError",
    "Limits",
    "MemoryUse",
    "Result",
    "Scaling",
    "Scenario",
    "ScenarioError",
    "Sweep",
    "Tuning",
    "__version__",
    "advise",
    "collective",
    "compare",
    "explain",
    "load_scenario",
    "memory",
    "scale",
    "simulate",
    "sweep",
    "tune",
]
