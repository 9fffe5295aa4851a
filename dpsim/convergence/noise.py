"""The gradient-noise form: what a step with a larger batch is worth, from the gradients' noise.

The noise scale B_noise = tr(Sigma) / |G|^2, in samples, is the variance of one sample's gradient
over the squared norm of the mean one (McCandlish et al. 2018, arXiv:1812.06162, where it is
B_simple). Against a step with batch B_0, one with batch B makes g = (1 + B_noise / B_0) / (1 +
B_noise / B) times the progress (AdaScale: Johnson et al. 2020, arXiv:2007.05105), and its samples
are worth (B_noise + B_0) / (B_noise + B) as much (Pollux: Qiao et al. 2021, OSDI). The noise grows
as training proceeds, so steps to a target are a sum over progress. Where the noise stays the same,
this is `StepLaw` with B_crit = B_noise.
"""

from __future__ import annotations

import numpy as np

from dpsim.base.arrays import FloatArray
from dpsim.base.errors import DpsimError


def noise_scale(squared_norm: float, variance: float, batch: float = 1.0) -> float:
    """B_noise in samples.

    It is ``variance`` of the mean gradient over ``batch`` samples (its trace), times that batch,
    over |G|^2.

    Raises DpsimError where the squared norm is not above 0 or the variance is below 0.
    """
    if not squared_norm > 0 or variance < 0:
        raise DpsimError(
            f"squared norm must be above 0 and variance at least 0, but got {squared_norm} and "
            f"{variance}"
        )
    return batch * variance / squared_norm


def gain(noise: FloatArray | float, batch: float, base: float) -> FloatArray | float:
    """Progress of a step with ``batch`` against one with ``base``.

    1 where they are equal, at most batch / base.
    """
    return (1 + noise / base) / (1 + noise / batch)


def steps_from_noise(
    progress: FloatArray, noise: FloatArray, target: float, batch: float, base: float
) -> float:
    """Steps with ``batch`` to ``target`` progress: the sum of progress / gain.

    Progress is counted in steps of batch ``base``. ``progress`` are ends of intervals, ascending,
    shape (n,); ``noise`` is the noise scale in each, shape (n,), and the last holds from there on.
    Raises DpsimError for a target that is not above
    0.
    """
    if not target > 0:
        raise DpsimError(f"target must be above 0, but got {target}")
    # One interval more, of the last noise, reaches to a target beyond the measured ones. Those
    # beyond the target are cut to no width.
    last = max(target, float(progress[-1]))
    ends = np.minimum(np.append(progress, last), target)
    widths = np.diff(ends, prepend=0.0)
    gains = gain(np.append(noise, noise[-1]), batch, base)
    return float(np.sum(widths / gains))
