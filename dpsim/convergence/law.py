"""Steps to a target against the global batch, in two forms.

The law is S(B) = S_min (1 + B_crit / B). S_min is the number of steps with an infinite batch.
B_crit is the batch that needs twice as many steps, and twice as many samples as the smallest batch:
samples E(B) = B S(B) = E_min (1 + B / B_crit), E_min = S_min B_crit, so that (S / S_min - 1) (E /
E_min - 1) = 1. Source: McCandlish et al., An Empirical Model of Large-Batch Training, 2018
(arXiv:1812.06162).

The gradient-noise form derives the progress of a step with a larger batch from the gradients'
noise. The noise scale B_noise = tr(Sigma) / |G|^2, in samples, is the variance of one sample's
gradient over the squared norm of the mean gradient (B_simple in McCandlish et al. 2018). A step
with batch B makes g = (1 + B_noise / B_0) / (1 + B_noise / B) times the progress of one with batch
B_0 (AdaScale: Johnson et al. 2020, arXiv:2007.05105), and its samples are worth (B_noise + B_0) /
(B_noise + B) as much (Pollux: Qiao et al. 2021, OSDI). The noise grows as training proceeds, so
steps to a target are a sum over progress. With constant noise, this is `StepLaw` with B_crit =
B_noise.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from dpsim.base.arrays import FloatArray
from dpsim.base.errors import DpsimError


@dataclass(frozen=True, slots=True)
class StepLaw:
    """Steps and samples to a target for each global batch.

    ``least_samples`` is E_min, ``critical_batch`` B_crit, both in samples; their errors are
    standard deviations of logarithms. ``correlation`` is between the two logarithms; ``noise`` is
    the standard deviation of ln(steps) of one run about the law.
    """

    least_samples: float
    critical_batch: float
    least_samples_error: float = 0.0
    critical_batch_error: float = 0.0
    correlation: float = 0.0
    noise: float = 0.0

    def steps(self, batch: float) -> float:
        """Return the steps to the target with a global batch of ``batch`` samples.

        Raises DpsimError for a batch that is not above 0.
        """
        return self.samples(batch) / batch

    def samples(self, batch: float) -> float:
        """Return the samples to the target: E_min (1 + B / B_crit).

        Raises DpsimError for a batch that is not above 0.
        """
        _check(batch)
        return self.least_samples * (1 + batch / self.critical_batch)

    def sample_efficiency(self, batch: float) -> float:
        """Return the samples that the smallest batch needs over the samples that ``batch`` needs.

        This is 1 / (1 + B / B_crit).
        """
        _check(batch)
        return 1 / (1 + batch / self.critical_batch)

    def step_efficiency(self, batch: float) -> float:
        """Return the steps of an infinite batch over those of ``batch``: 1 / (1 + B_crit / B)."""
        return 1 - self.sample_efficiency(batch)

    def log_error(self, batch: float) -> float:
        """Return the standard deviation of ln S(B).

        It combines the errors of the constants, with their correlation, and the noise of one run.
        """
        share = self.step_efficiency(batch)  # d ln S / d ln B_crit is minus this
        samples_error = self.least_samples_error
        batch_error = -share * self.critical_batch_error
        correlated = 2 * self.correlation * samples_error * batch_error
        # If the two errors cancel, rounding may make the variance slightly negative.
        variance = max(samples_error**2 + batch_error**2 + correlated, 0.0)
        return math.sqrt(variance + self.noise**2)


def _check(batch: float) -> None:
    if not batch > 0:
        raise DpsimError(f"batch must be above 0, but got {batch}")


def noise_scale(squared_norm: float, variance: float, batch: float = 1.0) -> float:
    """Return B_noise in samples: batch * variance / |G|^2.

    ``variance`` is the trace of the covariance of the mean gradient over ``batch`` samples.

    Raises DpsimError if the squared norm is not above 0 or the variance is below 0.
    """
    if not squared_norm > 0 or variance < 0:
        raise DpsimError(
            f"squared norm must be above 0 and variance at least 0, but got {squared_norm} and "
            f"{variance}"
        )
    return batch * variance / squared_norm


def gain(noise: FloatArray | float, batch: float, base: float) -> FloatArray | float:
    """Return the progress of a step with ``batch`` relative to a step with ``base``.

    The gain is 1 if they are equal, and at most batch / base.
    """
    return (1 + noise / base) / (1 + noise / batch)


def steps_from_noise(
    progress: FloatArray, noise: FloatArray, target: float, batch: float, base: float
) -> float:
    """Return the steps with ``batch`` to ``target`` progress: the sum of progress / gain.

    Progress is counted in steps of batch ``base``. ``progress`` holds the ends of intervals,
    ascending, shape (n,); ``noise`` is the noise scale in each, shape (n,). The last noise scale
    also applies beyond the last interval. Raises DpsimError for a target that is not above 0.
    """
    if not target > 0:
        raise DpsimError(f"target must be above 0, but got {target}")
    # An extra interval with the last noise scale covers a target beyond the measured progress.
    # Intervals beyond the target are cut to zero width.
    last = max(target, float(progress[-1]))
    ends = np.minimum(np.append(progress, last), target)
    widths = np.diff(ends, prepend=0.0)
    gains = gain(np.append(noise, noise[-1]), batch, base)
    return float(np.sum(widths / gains))
