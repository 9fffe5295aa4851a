"""The base of every configuration model: what a scenario or a catalogue entry may say, checked and frozen."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict


class Config(BaseModel):
    """A checked, immutable piece of configuration; unknown keys are errors.

    Fields that hold quantities are text with a unit in the file and SI floats inside (`dpsim.units`).
    """

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)
