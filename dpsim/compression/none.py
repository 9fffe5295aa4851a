"""No compression: payloads travel as they are."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from dpsim.config import Config


class NoCompressionConfig(Config):
    """Payloads travel as they are."""

    kind: Literal["none"] = Field(description="Gradients travel as they are.")
