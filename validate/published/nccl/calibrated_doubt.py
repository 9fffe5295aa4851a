"""How far curves may be off of which every fourth size is known."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from typing import Any

from dpsim.base.doubt import Doubt

CALIBRATED_FILE = "calibrated_residuals.json"
_MIB = 2**20


def calibrated_doubt(is_one_node: bool, nbytes: float) -> Doubt:
    """What calibration left of the sizes between, of machines that no fit before it saw."""
    content = _residuals()
    large = nbytes >= _MIB
    found = next(
        each
        for each in content["families"]
        if (each["is_one_node"], each["from_1MiB"]) == (is_one_node, large)
    )
    basis = f"communication: {found['machines']} machines calibrated by every fourth of their sizes"
    return Doubt(basis, content["quantiles"], found["residuals"])


@cache
def _residuals() -> Mapping[str, Any]:
    path = files("validate.published.nccl").joinpath(CALIBRATED_FILE)
    content: Mapping[str, Any] = json.loads(path.read_bytes())
    return content
