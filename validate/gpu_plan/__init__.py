"""A plan for one borrowed GPU: what it can show, in pieces that resume.

Knows the node's runs and microbenchmarks; needs torch, and no network.
"""

__all__: list[str] = []
