"""A key for a scenario's result: scenarios with the same key have the same result."""

from __future__ import annotations

import hashlib
import json
from functools import cache
from pathlib import Path
from typing import Any

from dpsim.base.config import BY_CONTENT
from dpsim.scenario import Scenario

# Results do not depend on how they are requested or shown.
_OTHERS = {"cli.py", "commands", "report", "__pycache__"}


def scenario_key(scenario: Scenario) -> str:
    """Return the SHA-256 of the canonical scenario and of dpsim, 64 hexadecimal digits.

    Canonical: all defaults written out, quantities in SI units, keys sorted; files it names are
    replaced by their current content, and its sweep is left out. A torch model is represented by
    its own file, or its module's name, without the modules it imports.
    """
    content: dict[str, Any] = scenario.model_dump(
        mode="json", by_alias=True, exclude={"sweep"}, context=BY_CONTENT
    )
    # Other code may give another result.
    asked = {"dpsim": _code(Path(__file__).parents[2]), "scenario": content}
    text = json.dumps(asked, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


@cache
def _code(root: Path) -> str:
    """Return the SHA-256 of dpsim's code and catalogue, since commits may share a version."""
    found = hashlib.sha256()
    for path in sorted(root.rglob("*")):
        name = path.relative_to(root)
        if path.is_file() and _OTHERS.isdisjoint(name.parts):
            found.update(f"{name}\n".encode() + path.read_bytes())
    return found.hexdigest()
