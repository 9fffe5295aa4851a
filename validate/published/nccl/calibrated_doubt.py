"""The uncertainty of calibrated curves, of which every fourth size is known."""

from __future__ import annotations

from dpsim.base.doubt import Doubt
from dpsim.base.shipped import shipped_json

CALIBRATED_FILE = "calibrated_residuals.json"


def calibrated_doubt(is_one_node: bool, large: bool) -> Doubt:
    """Return the calibration's residuals at the sizes between, on held-out machines.

    ``large``: of sizes from 1 MiB on.
    """
    content = shipped_json("validate.published.nccl", CALIBRATED_FILE)
    found = next(
        each
        for each in content["families"]
        if (each["is_one_node"], each["from_1MiB"]) == (is_one_node, large)
    )
    basis = f"communication: {found['machines']} machines calibrated by every fourth of their sizes"
    return Doubt(basis, found["spread"], source="communication")
