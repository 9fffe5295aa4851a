"""Puts the parts together: a scenario in, a result out."""

from dpsim.engine.result import PARTS, Bytes, Result
from dpsim.engine.simulate import compute_scale, provenance, simulate
from dpsim.engine.steps import Steps

__all__ = ["PARTS", "Bytes", "Result", "Steps", "compute_scale", "provenance", "simulate"]
