"""The division of a data set between workers, and the resulting epoch.

With n samples, m workers and b samples per worker and step, a step takes G = m b samples, and an
epoch is

- ``drop``: floor(n / G) steps; n - steps x G samples are left out,
- ``pad``: ceil(n / G) steps; steps x G - n samples are taken once more to fill the last ones.

`shuffled`: each epoch distributes a permutation of all samples, so that other samples are left out
or repeated each time. `disjoint`: each worker keeps its own shard of n / m samples, rounded down or
up, and repeats only samples of that shard. Steps are as many, because floor(floor(n / m) / b) =
floor(n / G), and likewise rounded up. All workers take the same number of steps, as synchronous
training requires.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from pydantic import Field, PositiveInt

from dpsim.base.config import Config
from dpsim.base.errors import DpsimError

Partition = Literal["disjoint", "shuffled"]
LastBatch = Literal["drop", "pad"]


@dataclass(frozen=True, slots=True)
class Epoch:
    """One pass over the data set: its steps, and its samples.

    ``distinct`` samples are computed at least once, ``repeated`` counts repetitions, and
    ``dropped`` samples are left out: distinct + dropped is the data set.
    """

    steps: int
    distinct: int
    repeated: int
    dropped: int


class DatasetConfig(Config):
    """The samples of one epoch, and their division between workers."""

    samples: PositiveInt = Field(description="Samples in the data set.", examples=[1_281_167])
    partition: Partition = Field(
        "shuffled",
        description=(
            "Division of samples between workers (dpsim converge). shuffled: all samples are "
            "permuted and distributed anew in each epoch; disjoint: each worker keeps its own "
            "shard, of at least one sample."
        ),
    )
    last_batch: LastBatch = Field(
        "drop",
        description="drop: skip samples that fill no whole step; pad: fill the last step up.",
    )

    def epoch(self, workers: int, batch: int) -> Epoch:
        """Return an epoch of ``workers`` that take ``batch`` samples each step.

        Raises DpsimError if it has no step.
        """
        global_batch = workers * batch
        steps = (
            self.samples // global_batch
            if self.last_batch == "drop"
            else -(-self.samples // global_batch)
        )
        if steps == 0:
            raise DpsimError(
                f"workload.dataset.samples: must be at least {global_batch:,} where last batches "
                "are dropped "
                f"({workers:,} workers x {batch:,} samples a step), but got {self.samples:,}"
            )
        if self.partition == "disjoint" and self.samples < workers:
            raise DpsimError(
                f"workload.dataset.samples: must be at least one for each of {workers:,} workers' "
                f"shards, but got {self.samples:,}"
            )
        distinct = min(self.samples, steps * global_batch)
        return Epoch(steps, distinct, steps * global_batch - distinct, self.samples - distinct)
