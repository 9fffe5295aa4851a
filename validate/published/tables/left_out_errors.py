"""What predictions of each table of step times leave of the groups that no fit saw.

``residuals.json`` keeps the quantiles of ln(measured / predicted) of the shipped tables, in which
each group counts as much as another. ``python -m tools.refits.table_residuals`` writes it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from typing import Any

from dpsim.base.doubt import Doubt

FILE = "residuals.json"


def doubt_of(kind: str) -> Doubt | None:
    """The error of the predictions of one kind of table; None where its rows have their own."""
    content = _content()
    found = content["tables"].get(kind)
    if found is None:
        return None
    return Doubt(f"rows of {kind}: {found['basis']}", content["quantiles"], found["group_left_out"])


@cache
def _content() -> Mapping[str, Any]:
    content: Mapping[str, Any] = json.loads(
        files("validate.published.tables").joinpath(FILE).read_bytes()
    )
    return content
