"""Step times of small clusters (AdaptDL)."""

from validate.published.adaptdl.comparison import REQUIRED, TABLE, compare, described
from validate.published.adaptdl.model import MODEL_FIELDS, fit_cluster
from validate.published.adaptdl.series import contradictory

__all__ = [
    "MODEL_FIELDS",
    "REQUIRED",
    "TABLE",
    "compare",
    "contradictory",
    "described",
    "fit_cluster",
]
