"""Explain a step's time: its critical path, and the effect of each knob."""

from dpsim.studies.explain.critical_path import CriticalPath, Segment, critical_path
from dpsim.studies.explain.explanation import Explanation, explain
from dpsim.studies.explain.knob import Change, Knob, as_options, changed
from dpsim.studies.explain.knobs import KNOBS
from dpsim.studies.explain.stragglers import (
    Alternative,
    Cause,
    StragglerCost,
    WaitedFor,
    straggler_cost,
)
from dpsim.studies.explain.trust import Measure, Trust, trust
from dpsim.studies.explain.turn import Turn
from dpsim.studies.explain.uncertainty import UncertainInput, Uncertainty, uncertainty_of
from dpsim.studies.explain.verdict import link_words, verdict

__all__ = [
    "KNOBS",
    "Alternative",
    "Cause",
    "Change",
    "CriticalPath",
    "Explanation",
    "Knob",
    "Measure",
    "Segment",
    "StragglerCost",
    "Trust",
    "Turn",
    "UncertainInput",
    "Uncertainty",
    "WaitedFor",
    "as_options",
    "changed",
    "critical_path",
    "explain",
    "link_words",
    "straggler_cost",
    "trust",
    "uncertainty_of",
    "verdict",
]
