from typing import Literal

from pydantic import BaseModel, ConfigDict


class FlatTop(BaseModel):
    model_config = ConfigDict(extra="forbid")
    kind: Literal["flat-top"]
