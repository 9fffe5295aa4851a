"""Sweeps over many scenarios: expanded, computed by many workers, stored, resumed and queried."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dpsim.base.lazy import on_demand

if TYPE_CHECKING:
    from dpsim.studies.sweep.answer import Answer, query, results
    from dpsim.studies.sweep.axis import below, line_about, split_path
    from dpsim.studies.sweep.begin import sweep
    from dpsim.studies.sweep.columns import BETWEEN_SENTENCES, COLUMNS, Column
    from dpsim.studies.sweep.expand import Plan, plan
    from dpsim.studies.sweep.pareto import Pareto, pareto_points
    from dpsim.studies.sweep.point import scenario_key
    from dpsim.studies.sweep.summary import Sweep
else:
    __getattr__, __dir__ = on_demand(__name__, __file__)

__all__ = [
    "BETWEEN_SENTENCES",
    "COLUMNS",
    "Answer",
    "Column",
    "Pareto",
    "Plan",
    "Sweep",
    "below",
    "line_about",
    "pareto_points",
    "plan",
    "query",
    "results",
    "scenario_key",
    "split_path",
    "sweep",
]
