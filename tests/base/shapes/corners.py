"""Models in a module without their name, and something that is no kind."""

from typing import Literal

from pydantic import BaseModel, ConfigDict


class Square(BaseModel):
    model_config = ConfigDict(extra="forbid")
    kind: Literal["square"]
    side: int = 1


class FlatTop(BaseModel):
    kind: Literal["flat", "top"] = "flat"
