"""``dpsim schema``: the JSON Schema of scenario files."""

from __future__ import annotations

import sys


def schema() -> None:
    """Print the JSON Schema of scenario files, for editors that complete and check them.

    Example: dpsim schema > scenario.schema.json
    """
    from dpsim.scenario import Scenario, text

    sys.stdout.write(text(Scenario))
