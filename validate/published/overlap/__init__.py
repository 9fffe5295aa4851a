"""Overlap policies, parameter servers and gossip."""

from validate.published.overlap.comparison import compare

__all__ = [
    "compare",
]
