"""What a scenario's answer depends on, as one short text.

Two scenarios with the same key have the same result.
"""

from __future__ import annotations

import hashlib
import json
from functools import lru_cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

from dpsim.scenario import Scenario


def scenario_key(scenario: Scenario) -> str:
    """SHA-256 of the canonical scenario and the version of dpsim, 64 hexadecimal digits.

    Canonical: all defaults written out, quantities in SI units, keys sorted; files that it names
    stand for what they hold now, and the sweep that it may be part of does not count. A torch model
    that is named by its module counts by name alone.
    """
    content: dict[str, Any] = scenario.model_dump(mode="json", by_alias=True, exclude={"sweep"})
    model = content["workload"]["model"]
    if isinstance(model, dict):
        for name, value in model.items():
            if isinstance(value, str):
                model[name] = _held(value)
    # The version counts: another one may answer the same scenario otherwise.
    asked = {"dpsim": _version(), "scenario": content}
    text = json.dumps(asked, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


def _held(text: str) -> str:
    """What the file of this name holds, and other text as it is.

    Of ``model.py:build`` it is the file with the function's name.
    """
    name, colon, rest = text.rpartition(":") if ".py:" in text else (text, "", "")
    path = Path(name)
    if not path.is_file():
        return text
    return f"{hashlib.sha256(path.read_bytes()).hexdigest()}{colon}{rest}"


@lru_cache(maxsize=1)
def _version() -> str:
    return version("dpsim")
