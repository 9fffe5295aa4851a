"""Steps to a target against the global batch: S(B) = S_min (1 + B_crit / B).

S_min is what an infinite batch needs, B_crit the batch with which twice as many steps are needed,
and twice as many samples as with the smallest batch: samples E(B) = B S(B) = E_min (1 + B /
B_crit), E_min = S_min B_crit, so that (S / S_min - 1) (E / E_min - 1) = 1. Source: McCandlish et
al., An Empirical Model of Large-Batch Training, 2018 (arXiv:1812.06162).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from dpsim.base.errors import DpsimError


@dataclass(frozen=True, slots=True)
class StepLaw:
    """Steps and samples to a target for each global batch.

    ``least_samples`` is E_min in samples, ``critical_batch`` B_crit in samples; the errors are
    standard deviations of their logarithms, ``correlation`` that between the two logarithms, and
    ``noise`` that of one run about the law, as a logarithm.
    """

    least_samples: float
    critical_batch: float
    least_samples_error: float = 0.0
    critical_batch_error: float = 0.0
    correlation: float = 0.0
    noise: float = 0.0

    def steps(self, batch: float) -> float:
        """Steps to the target with a global batch of ``batch`` samples.

        Raises DpsimError for a batch that is not above 0.
        """
        return self.samples(batch) / batch

    def samples(self, batch: float) -> float:
        """Samples to the target: E_min (1 + B / B_crit).

        Raises DpsimError for a batch that is not above 0.
        """
        _check(batch)
        return self.least_samples * (1 + batch / self.critical_batch)

    def sample_efficiency(self, batch: float) -> float:
        """Samples that the smallest batch needs over those that ``batch`` needs.

        1 / (1 + B / B_crit).
        """
        _check(batch)
        return 1 / (1 + batch / self.critical_batch)

    def step_efficiency(self, batch: float) -> float:
        """Steps that the largest batch needs over those of ``batch``: 1 / (1 + B_crit / B)."""
        return 1 - self.sample_efficiency(batch)

    def log_error(self, batch: float) -> float:
        """Standard deviation of ln S(B).

        It is made of those of the constants with their correlation, and that of one run.
        """
        share = self.step_efficiency(batch)  # d ln S / d ln B_crit is minus this
        own = self.least_samples_error
        other = -share * self.critical_batch_error
        of_constants = own**2 + other**2 + 2 * self.correlation * own * other
        # Where the two errors cancel, rounding may leave a little less than nothing.
        return math.sqrt(max(of_constants, 0.0) + self.noise**2)


def _check(batch: float) -> None:
    if not batch > 0:
        raise DpsimError(f"batch must be above 0, but got {batch}")
