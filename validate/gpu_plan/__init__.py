"""A plan for borrowed GPUs: what one of them, a node, or several nodes can show, item by item.

Knows the node's measurements and runs; needs torch, and no network.
"""

__all__: list[str] = []
