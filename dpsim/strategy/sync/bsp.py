"""Bulk-synchronous parallel: every worker takes part in every step and waits for all others.

Source: Valiant, "A bridging model for parallel computation", CACM 33, 1990.
"""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from dpsim.strategy.sync.sync import Sync


class BspConfig(Sync):
    """Every worker takes part in every step and waits for all others."""

    kind: Literal["bsp"] = Field(
        description="Every worker takes part in every step and waits for all others."
    )
