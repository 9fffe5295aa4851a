"""Read the constants that the package ships.

Fitted on published tables by ``python -m tools.refits.nccl_refit``.
"""

from __future__ import annotations

import math
import re
from functools import cache
from importlib.resources import files

from dpsim.network.libraries.nccl.assembly import Known

# constants.yaml has one line per constant, as its refit writes it. A full YAML parser would take an
# eighth of the time of a small prediction.
_GROUP = re.compile(r"  (\S+):$")
_ENTRY = re.compile(r"    (\S+): \{value: ([^,]+),")


@cache
def shipped_constants() -> Known:
    """Return the ln of each constant by (group, name)."""
    text = files("dpsim.network.libraries.nccl").joinpath("constants.yaml").read_text("utf-8")
    found = {}
    group = ""
    for line in text.partition("\ngroups:\n")[2].splitlines():
        if (entry := _ENTRY.match(line)) is not None:
            found[group, entry[1]] = math.log(float(entry[2]))
        elif (named := _GROUP.match(line)) is not None:
            group = named[1]
    return found
