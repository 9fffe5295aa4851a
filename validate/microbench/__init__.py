"""Microbenchmarks of collectives, messages, copies, layers, updates and codecs.

One file per benchmark. Depends on ranks and their collectives, and needs torch.
"""

__all__: list[str] = []
