"""Step times of small clusters (AdaptDL)."""

from validate.published.adaptdl.comparison import REQUIRED, TABLE, compare, described
from validate.published.adaptdl.model import MODEL_FIELDS, fit_cluster

__all__ = [
    "MODEL_FIELDS",
    "REQUIRED",
    "TABLE",
    "compare",
    "described",
    "fit_cluster",
]
