"""Advice for a traced program: its buckets, or its sharding."""

from dpsim.studies.advise.advice import Advice, StepParts, advise

__all__ = ["Advice", "StepParts", "advise"]
