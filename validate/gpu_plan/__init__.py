"""A plan for borrowed GPUs: measurements on one of them, a node, or several nodes, by item.

Depends on the node's measurements and runs; needs torch, and no network.
"""

__all__: list[str] = []
