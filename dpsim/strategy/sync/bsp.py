"""Bulk-synchronous parallel: every worker takes part in every step and waits for all others.

Source: Valiant, "A bridging model for parallel computation", CACM 33, 1990.
"""

from __future__ import annotations

from typing import ClassVar, Literal

from pydantic import Field

from dpsim.strategy.sync.sync import Sync


class BspConfig(Sync):
    """Every worker takes part in every step and waits for all others."""

    label: ClassVar[str] = "BSP"
    also_called: ClassVar[tuple[str, ...]] = ("sync", "synchronous")

    kind: Literal["bsp"] = Field(
        description="Every worker takes part in every step and waits for all others."
    )
