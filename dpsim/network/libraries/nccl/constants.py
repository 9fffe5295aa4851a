"""Reads the constants that the package ships.

Fitted on published tables by ``python -m validate.published.fit``.
"""

from __future__ import annotations

import math
from functools import cache
from importlib.resources import files
from typing import Any

from dpsim.network.libraries.nccl.assembly import Known


@cache
def shipped_file() -> dict[str, Any]:
    """constants.yaml: ``fitted_on``, ``machines``, ``left_out_error`` and ``groups``."""
    from ruamel.yaml import YAML  # slow to import: only when a library model is asked for

    text = (
        files("dpsim.network.libraries.nccl").joinpath("constants.yaml").read_text(encoding="utf-8")
    )
    content: dict[str, Any] = YAML(typ="safe", pure=True).load(text)
    return content


@cache
def shipped_constants() -> Known:
    """Ln of each constant by (group, name)."""
    groups = shipped_file()["groups"]
    return {
        (key, name): math.log(entry["value"])
        for key, group in groups.items()
        for name, entry in group.items()
    }
