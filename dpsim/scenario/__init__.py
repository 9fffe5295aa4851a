"""One YAML file is one experiment: the schema, the loader, errors with line and column.

Depends on the configuration models of the lower packages, and runs nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from dpsim.base.lazy import on_demand
from dpsim.scenario.cost import CostConfig
from dpsim.scenario.document import (
    SHOWN_PROBLEMS,
    Document,
    Node,
    Place,
    Plain,
    Problem,
    Scalar,
    error,
    node_of,
)
from dpsim.scenario.loader import load, load_scenario, load_yaml, validate
from dpsim.scenario.replay import ReplayConfig
from dpsim.scenario.scaled_compute import ComputeScale, MeasuredCell, MeasuredStep, ScaledCompute
from dpsim.scenario.schema import RunConfig, Scenario
from dpsim.scenario.shape import Shape, fields_of, shape_of
from dpsim.scenario.yaml_text import as_yaml, from_text, parse

if TYPE_CHECKING:
    from dpsim.scenario.overrides import Override, apply_overrides, full_path
    from dpsim.scenario.shipped_files import shipped
    from dpsim.scenario.sweep import ParameterConfig, SweepConfig
else:
    __getattr__, __dir__ = on_demand(__name__, __file__)

__all__ = [
    "SHOWN_PROBLEMS",
    "ComputeScale",
    "CostConfig",
    "Document",
    "MeasuredCell",
    "MeasuredStep",
    "Node",
    "Override",
    "ParameterConfig",
    "Place",
    "Plain",
    "Problem",
    "ReplayConfig",
    "RunConfig",
    "Scalar",
    "ScaledCompute",
    "Scenario",
    "Shape",
    "SweepConfig",
    "apply_overrides",
    "as_yaml",
    "error",
    "fields_of",
    "from_text",
    "full_path",
    "load",
    "load_scenario",
    "load_yaml",
    "node_of",
    "parse",
    "shape_of",
    "shipped",
    "validate",
]
