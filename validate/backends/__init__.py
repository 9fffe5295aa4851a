"""Which backend of torch.distributed works here."""

from validate.backends.matrix import DOCUMENTATION, Cell, here, matrix, pairs, to_json

__all__ = [
    "DOCUMENTATION",
    "Cell",
    "here",
    "matrix",
    "pairs",
    "to_json",
]
