"""Jitter: each worker's compute time varies from step to step by a random factor of mean 1.

The defaults were fitted to per-step times of GPT-2 runs on one node of 8 H100 (rank 0's clock,
whole milliseconds, so the rounding's variance of 1/6 ms**2 was taken off). Steps that load a new
file of data take 2.2 times as long, about every 190 steps; these come from the input pipeline, so
steps above 1.3 medians were left out, and a running median of 101 steps removed the slow trend of
the batch or window size. The rest has a coefficient of variation of 0.5, 0.8, 0.9, 1.7 and 2.5 % in
the five runs, median 0.94 %. A step ends with the slowest of 8 workers, and the greatest of 8 equal
normal draws varies 0.611 times as much as one: 0.0094 / 0.611 = 0.015 for a worker, if all of it is
compute, independent between workers. The data cannot tell, because single workers were not timed.
Elsewhere: 0.24-0.45 % over blocks of 10 steps on 8 and 16 A100 agrees (at most 1.4 % for a step, if
steps are independent); 2.3-2.6 % over such blocks on 32 V100 with TCP is more; in production jobs
of 128 GPUs and more the 90th percentile of a step is 1.06 medians (Lin et al., OSDI 2025), a
standard deviation of 0.045 of a whole step's logarithm, unequal sequences included.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Sequence
from typing import Annotated, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from dpsim.base.config import Config
from dpsim.disturbance.groups import node_of
from dpsim.disturbance.random_streams import random_stream, random_streams

Factors = NDArray[np.float64]

Spread = Annotated[float, Field(ge=0, le=3)]

FITTED_SPREAD = 0.015  # of one worker's factor; see above


class Jitter(Config):
    """A random factor of mean 1 on compute time, for every worker and step.

    ``spread`` names the field that scales the spread of the factors; None if no single field does.
    """

    spread: ClassVar[str | None] = None

    @abstractmethod
    def draw(self, generator: np.random.Generator, steps: int) -> Factors:
        """Return a worker's factors, or the input of `shaped`; shape (steps,)."""

    def shaped(self, draws: Factors) -> Factors:
        """Return the factors for draws of any shape: unless overridden, the draws themselves."""
        return draws

    def factors(
        self, workers: int, steps: int, seed: int, per_node: int | Sequence[int] = 1
    ) -> Factors:
        """Return the factors on compute time, shape (steps, workers).

        ``per_node``: workers of each node, or of node 0, 1, ..., for a part that a node's workers
        share. Every worker has its own random stream, so its draws do not depend on the number of
        workers.
        """
        drawn = np.empty((steps, workers))
        for worker, stream in enumerate(random_streams(seed, workers)):
            drawn[:, worker] = self.draw(stream, steps)
        return _rounded(self.shaped(drawn))


class LognormalJitterConfig(Jitter):
    """The factor is lognormal."""

    spread: ClassVar[str | None] = "sigma"

    kind: Literal["lognormal"] = Field(
        description="Compute times vary by a lognormal factor of mean 1, per worker and step."
    )
    sigma: Annotated[float, Field(ge=0, le=3)] = Field(
        default=FITTED_SPREAD, description="Standard deviation of the factor's logarithm."
    )

    def draw(self, generator: np.random.Generator, steps: int) -> Factors:
        """Draw from the standard normal."""
        return generator.standard_normal(steps)

    def shaped(self, draws: Factors) -> Factors:
        """Return exp(sigma z - sigma**2 / 2), z normal."""
        return np.exp(self.sigma * draws - self.sigma**2 / 2)


class GammaJitterConfig(Jitter):
    """The factor is gamma, as a sum of short independent waits is; with ``cv`` 1, exponential."""

    spread: ClassVar[str | None] = "cv"

    kind: Literal["gamma"] = Field(
        description="Compute times vary by a gamma factor of mean 1, per worker and step."
    )
    cv: Annotated[float, Field(ge=0, le=3)] = Field(
        default=FITTED_SPREAD,
        description="Coefficient of variation; 1 makes the factor exponential.",
    )

    def draw(self, generator: np.random.Generator, steps: int) -> Factors:
        """Draw from the gamma distribution with shape 1 / cv**2 and scale cv**2."""
        # The limit: the shape would be infinite.
        if self.cv == 0:
            return np.ones(steps)
        return generator.gamma(self.cv**-2, self.cv**2, steps)


class ParetoJitterConfig(Jitter):
    """The factor is Pareto distributed: mostly near its minimum, sometimes many times that.

    The default tail index was fitted to the two of 29 runs that were disturbed throughout (10 % of
    steps longer than 1.1 medians; 90th and 99th percentile 1.58 and 4.04 medians in one, 1.86 and
    6.32 in the other), as the greatest of 8 draws: 3.1 and 2.4, pooled 2.7. They end at 5.5 and 7
    medians, although a Pareto has no end; the other 27 runs have no such tail.
    """

    kind: Literal["pareto"] = Field(
        description="Compute times vary by a Pareto factor of mean 1, per worker and step."
    )
    tail_index: Annotated[float, Field(gt=1, le=1000)] = Field(
        default=2.7,
        description=(
            "Tail index: the probability to exceed x falls as x to the power of minus this; at 2 "
            "and below the variance is infinite."
        ),
    )

    def draw(self, generator: np.random.Generator, steps: int) -> Factors:
        """Draw uniformly from [0, 1)."""
        return generator.random(steps)

    def shaped(self, draws: Factors) -> Factors:
        """Return (a - 1) / a times u**(-1/a), u uniform in (0, 1]."""
        a = self.tail_index
        return (a - 1) / a * (1 - draws) ** (-1 / a)


class CorrelatedJitterConfig(Jitter):
    """Correlated variation of a worker, its node and the whole job; delays; stalls.

    Each level's logarithm is normal, and follows a first-order autoregression, in its
    stationary state from the first step on. The default stalls are from three of the five runs
    above (loads of new files): one in 93 to 282 steps, pooled one in 168, which then takes 2.1
    times as long. `dpsim calibrate` fits all of these to measured steps.
    """

    kind: Literal["correlated"] = Field(
        description=(
            "Compute times vary by correlated factors of the worker, its node and the job, with "
            "occasional delays and periodic stalls."
        )
    )
    sigma: Spread = Field(
        default=FITTED_SPREAD,
        description="Standard deviation of the logarithm of the worker's factor.",
    )
    node_sigma: Spread = Field(
        default=0.0, description="Standard deviation of the logarithm of the node's factor."
    )
    job_sigma: Spread = Field(
        default=0.0, description="Standard deviation of the logarithm of the job's factor."
    )
    memory: Annotated[float, Field(ge=0, le=1e6)] = Field(
        default=0.0,
        description="Steps after which a factor's autocorrelation has fallen to 1/e.",
    )
    job_memory: Annotated[float, Field(ge=0, le=1e6)] | None = Field(
        default=None,
        description="Steps until the job factor's autocorrelation is 1/e; memory if left out.",
    )
    delay_chance: Annotated[float, Field(ge=0, le=1)] = Field(
        default=0.0, description="Share of steps with a delay."
    )
    delay: Annotated[float, Field(ge=0, le=1e3)] = Field(
        default=0.05, description="Mean delay, relative to the compute time of a step."
    )
    delay_tail: Annotated[float, Field(gt=1, le=1000)] = Field(
        default=1000.0,
        description="Tail index of a delay (Lomax distribution); 1000 is nearly exponential.",
    )
    delay_of: Literal["worker", "node", "job"] = Field(
        default="worker", description="The unit that is delayed as a whole."
    )
    stall_every: Annotated[float, Field(ge=1, le=1e9)] = Field(
        default=168.0, description="Steps from one stall of all workers to the next."
    )
    stall: Annotated[float, Field(ge=1, le=1e3)] = Field(
        default=2.1, description="Compute time of a step with a stall, relative to others."
    )

    def draw(self, generator: np.random.Generator, steps: int) -> Factors:
        """Draw from a normal of variance 1, correlated over steps."""
        return _autoregressive(generator, steps, self.memory)

    def factors(
        self, workers: int, steps: int, seed: int, per_node: int | Sequence[int] = 1
    ) -> Factors:
        """Return the product of all levels, delays and stalls, each of mean 1."""
        product = np.ones((steps, workers))
        job_memory = self.memory if self.job_memory is None else self.job_memory
        levels = {
            "worker": (self.sigma, self.memory),
            "node": (self.node_sigma, self.memory),
            "job": (self.job_sigma, job_memory),
        }
        for level, (sigma, memory) in levels.items():
            # Shape (workers,): the group of each worker at this level.
            groups = _groups_at(level, workers, per_node)
            if sigma:
                streams = random_streams(seed, groups.max() + 1, f"jitter of a {level}")
                # Shape (steps, groups); [:, groups] repeats them for the workers of each group.
                drawn = np.stack([_autoregressive(one, steps, memory) for one in streams], axis=1)
                product *= np.exp(sigma * drawn - sigma**2 / 2)[:, groups]
            if self.delay_chance and level == self.delay_of:
                product *= self._delays(groups, steps, seed)
        return _rounded(product * self._stalls(steps, seed)[:, None])

    def _delays(self, groups: NDArray[np.intp], steps: int, seed: int) -> Factors:
        """Return 1 + delay over its mean; a Lomax delay is ``delay`` (a - 1) (u**(-1/a) - 1)."""
        streams = random_streams(seed, groups.max() + 1, "delays")
        # Shape (steps, groups, 2): whether there is a delay, and how long it would be. Always both,
        # so that another ``delay_chance`` does not change the lengths.
        draws = np.stack([one.random((steps, 2)) for one in streams], axis=1)
        a = self.delay_tail
        length = self.delay * (a - 1) * ((1 - draws[..., 1]) ** (-1 / a) - 1)
        delays = np.where(draws[..., 0] < self.delay_chance, length, 0.0)
        return ((1 + delays) / (1 + self.delay_chance * self.delay))[:, groups]

    def _stalls(self, steps: int, seed: int) -> Factors:
        """Return the factors of periodic stalls, shape (steps,); the first one comes at random."""
        phase = random_stream(seed, "stalls").random()
        # A step has a stall if the number of stalls up to it grows, so that the average interval is
        # exact if it is fractional.
        passed = np.floor(np.arange(steps + 1) / self.stall_every + phase)
        stalled = np.diff(passed) > 0
        mean = 1 + (self.stall - 1) / self.stall_every
        return np.where(stalled, self.stall, 1.0) / mean


def _rounded(factors: Factors) -> Factors:
    """Return the factors rounded to single precision, to be the same on all processors.

    The last digit of exp and of powers depends on the processor's vector instructions, and
    asynchronous workers amplify it by ten orders of magnitude in as many seconds.
    """
    return factors.astype(np.float32).astype(np.float64)


def _autoregressive(generator: np.random.Generator, steps: int, memory: float) -> Factors:
    """Draw normals of variance 1: x(t) = r x(t - 1) + sqrt(1 - r**2) e(t), r = exp(-1 / memory)."""
    fresh = generator.standard_normal(steps)
    if memory == 0 or steps == 0:
        return fresh
    kept = math.exp(-1 / memory)
    # Not the first, so that the long-run variance holds from the start.
    fresh[1:] *= math.sqrt(1 - kept**2)
    for step in range(1, steps):
        fresh[step] += kept * fresh[step - 1]
    return fresh


def _groups_at(level: str, workers: int, per_node: int | Sequence[int]) -> NDArray[np.intp]:
    """Return the group of each worker at a level: of its own, its node's, or the job's."""
    if level == "worker":
        return np.arange(workers)
    return node_of(workers, per_node) if level == "node" else np.zeros(workers, dtype=np.intp)
