"""Wait-free back-propagation: every tensor's gradient is sent separately as soon as it is ready.

Source: Zhang et al., "Poseidon", USENIX ATC 2017.
"""

from __future__ import annotations

from typing import ClassVar, Literal

from pydantic import Field

from dpsim.strategy.aggregation import Calls
from dpsim.strategy.overlap.plan import Outlook, Overlap


class WfbpConfig(Overlap):
    """Every gradient is sent separately as soon as it is ready."""

    label: ClassVar[str] = "WFBP"
    merges_nothing: ClassVar[bool] = True

    kind: Literal["wfbp"] = Field(
        description="Every tensor's gradient is sent on its own as soon as it is ready."
    )

    def plan(self, calls: Calls, outlook: Outlook) -> Calls:
        """Return the calls unchanged."""
        return calls
