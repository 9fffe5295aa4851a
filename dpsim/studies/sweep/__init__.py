"""Many scenarios.

Worked out from files, computed by many workers, stored so that a kill costs little, resumed, asked.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from dpsim.studies.sweep.axis import split
from dpsim.studies.sweep.key import scenario_key
from dpsim.studies.sweep.sweep import sweep

if TYPE_CHECKING:
    from dpsim.studies.sweep.answer import Answer, query, results
    from dpsim.studies.sweep.columns import COLUMNS, Column
    from dpsim.studies.sweep.expand import Plan, plan
    from dpsim.studies.sweep.summary import Sweep

__all__ = [
    "COLUMNS",
    "Answer",
    "Column",
    "Plan",
    "Sweep",
    "plan",
    "query",
    "results",
    "scenario_key",
    "split",
    "sweep",
]

_HOMES = {
    "COLUMNS": "columns",
    "Answer": "answer",
    "Column": "columns",
    "Plan": "expand",
    "Sweep": "summary",
    "plan": "expand",
    "query": "answer",
    "results": "answer",
}


def __getattr__(name: str) -> Any:
    """Load a public name when it is first asked for.

    ``import dpsim`` comes through here, and is quick.
    """
    if name in _HOMES:
        return getattr(import_module(f"dpsim.studies.sweep.{_HOMES[name]}"), name)
    raise AttributeError(f"module 'dpsim.studies.sweep' has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
