"""What a scenario's answer depends on, as one short text.

Two scenarios with the same key have the same result.
"""

from __future__ import annotations

import hashlib
import json
from functools import lru_cache
from importlib.metadata import version
from typing import Any

from dpsim.base.config import BY_CONTENT
from dpsim.scenario import Scenario


def scenario_key(scenario: Scenario) -> str:
    """SHA-256 of the canonical scenario and the version of dpsim, 64 hexadecimal digits.

    Canonical: all defaults written out, quantities in SI units, keys sorted; files that it names
    stand for what they hold now, and the sweep that it may be part of does not count. A torch model
    counts by its own file, or by its module's name, not by what that imports.
    """
    content: dict[str, Any] = scenario.model_dump(
        mode="json", by_alias=True, exclude={"sweep"}, context=BY_CONTENT
    )
    # The version counts: another one may answer the same scenario otherwise.
    asked = {"dpsim": _version(), "scenario": content}
    text = json.dumps(asked, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


@lru_cache(maxsize=1)
def _version() -> str:
    return version("dpsim")
