"""Read the constants that the package ships.

Fitted on published tables by ``python -m tools.refits.nccl_refit``.
"""

from __future__ import annotations

import math
from functools import cache
from importlib.resources import files

from dpsim.base.shipped import shipped
from dpsim.network.libraries.nccl.assembly import Known


@cache
def shipped_constants() -> Known:
    """Return the ln of each constant by (group, name)."""
    content = shipped(files("dpsim.network.libraries.nccl").joinpath("constants.yaml"))
    return {
        (group, name): math.log(entry["value"])
        for group, constants in content["groups"].items()
        for name, entry in constants.items()
    }
