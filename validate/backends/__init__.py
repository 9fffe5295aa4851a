"""The support of operations by torch.distributed's backends here, found by trying.

Depends on ranks and collectives; needs torch.
"""

from validate.backends.matrix import (
    CLASSIC,
    DOCUMENTATION,
    Cell,
    Edition,
    here,
    matrix,
    pairs,
    to_json,
)

__all__ = [
    "CLASSIC",
    "DOCUMENTATION",
    "Cell",
    "Edition",
    "here",
    "matrix",
    "pairs",
    "to_json",
]
