"""Which backend of torch.distributed carries out which operation here, found by trying.

Knows ranks and collectives; needs torch.
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
