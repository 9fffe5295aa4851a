from typing import Literal

from pydantic import BaseModel, ConfigDict, Field


class Round(BaseModel):
    model_config = ConfigDict(extra="forbid")
    kind: Literal["round"]
    radius: float = Field(default=1.0, gt=0)
