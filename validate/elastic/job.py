"""The steps of a job, and when its ranks are killed."""

from __future__ import annotations

from pydantic import Field, PositiveFloat, PositiveInt

from dpsim.base.config import Config

TOTAL = "total.json"  # rank 0's file at the end of the job


class Job(Config):
    """Steps of timed waits, and a checkpoint after every so many of them.

    ``kills``: seconds of computing, since it began or went on, after which a rank is killed.
    """

    ranks: PositiveInt = Field(default=4, ge=2, description="Processes on this machine.")
    steps: PositiveInt = Field(default=100, description="Number of steps.")
    step_s: PositiveFloat = Field(default=0.1, description="Compute time of a step in seconds.")
    every: PositiveInt = Field(default=10, description="Steps between checkpoints.")
    checkpoint_s: PositiveFloat = Field(default=0.2, description="Time of a checkpoint in seconds.")
    kills: tuple[PositiveFloat, ...] = Field(
        default=(), description="Times at which a rank is killed."
    )
