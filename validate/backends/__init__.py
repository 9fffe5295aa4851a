"""Which backend of torch.distributed carries out which operation here, found by trying.

Knows ranks and collectives; needs torch.
"""

from validate.backends.matrix import DOCUMENTATION, Cell, here, matrix, pairs, to_json

__all__ = [
    "DOCUMENTATION",
    "Cell",
    "here",
    "matrix",
    "pairs",
    "to_json",
]
