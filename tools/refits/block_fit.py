"""Robust fits of positive parameters that are shared by groups of rows.

A :class:`Block` is one kind of parameter with one value per group (a bandwidth per cluster, a
gradient size per model, a compute time per model and batch). Each row of the data reads exactly one
value of each block, so one perturbed evaluation gives the whole Jacobian column group: a fit with
hundreds of unknowns costs as many model evaluations as there are blocks.

The residual is log(predicted / measured) x weight under soft_l1, plus (x - prior) / spread for each
parameter, x being the logarithm (or logit) of the parameter: positive by construction,
errors relative.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from dpsim.base.arrays import FloatArray, IntArray

_REACH = 60.0  # logarithms are clipped here, so that a trial step of the solver cannot overflow
_SHORTEST_S, _LONGEST_S = 1e-12, 1e12  # seconds
STEP = 1e-5  # relative step of the forward differences


@dataclass(frozen=True)
class Block:
    """One kind of parameter.

    name: key in the dictionary given to the model. prior: natural value per group. spread: standard
    deviation of the prior in log (logit) units. rows: for each data row, the group
    whose value it reads. fraction: the parameter lives in (0, 1) and is fitted as a logit.
    """

    name: str
    prior: FloatArray
    spread: FloatArray
    rows: IntArray
    fraction: bool = False

    def encode(self) -> FloatArray:
        """Return the prior in fitting units."""
        return np.log(self.prior / (1.0 - self.prior)) if self.fraction else np.log(self.prior)

    def decode(self, x: FloatArray) -> FloatArray:
        """Return the natural values."""
        x = np.clip(x, -_REACH, _REACH)
        return 1.0 / (1.0 + np.exp(-x)) if self.fraction else np.exp(x)


def soft_maximum(a: FloatArray, b: FloatArray, p: FloatArray | float) -> FloatArray:
    """Return (a^p + b^p)^(1/p) of positive numbers, without overflow.

    It lies between the maximum (large p) and the sum (p = 1).
    """
    # Factor out the larger one, whose power would overflow. The floors keep 0 out of divisions and
    # logarithms, and exp from underflowing where the smaller one is negligible.
    larger = np.maximum(np.maximum(a, b), 1e-300)
    ratio = np.maximum(np.minimum(a, b) / larger, 1e-300)
    return np.asarray(larger * (1.0 + np.exp(np.maximum(p * np.log(ratio), -700.0))) ** (1.0 / p))


Model = Callable[[Mapping[str, FloatArray]], FloatArray]


@dataclass(frozen=True)
class FitResult:
    """Fitted values and their standard errors (in log or logit units) per block and group."""

    values: Mapping[str, FloatArray]
    spreads: Mapping[str, FloatArray]


class _Problem:
    """Residuals and Jacobian of a model over blocks."""

    def __init__(
        self,
        blocks: Sequence[Block],
        model: Model,
        measured: FloatArray,
        weights: FloatArray,
    ) -> None:
        self.blocks = blocks
        self.model = model
        self.log_measured = np.log(measured)
        self.weights = weights
        self.x0 = np.concatenate([block.encode() for block in blocks])
        self.spread = np.concatenate([block.spread for block in blocks])
        self.offsets = np.concatenate([[0], np.cumsum([len(block.prior) for block in blocks])])
        # The point of the last evaluation, the values that its rows read there, and the result.
        self._last: tuple[FloatArray, dict[str, FloatArray], FloatArray] | None = None

    def split(self, x: FloatArray) -> dict[str, FloatArray]:
        """Return the natural values per block."""
        bounds = zip(self.blocks, self.offsets[:-1], self.offsets[1:], strict=True)
        return {block.name: block.decode(x[low:high]) for block, low, high in bounds}

    def log_model(self, x: FloatArray) -> FloatArray:
        """Return the logarithm of the predicted seconds."""
        # The solver requests the Jacobian at the point where it has just requested the residuals.
        if self._last is None or not np.array_equal(self._last[0], x):
            values = self.split(x)
            by_row = {block.name: values[block.name][block.rows] for block in self.blocks}
            self._last = (x.copy(), by_row, self._log_prediction(by_row))
        return self._last[2]

    def _log_prediction(self, by_row: Mapping[str, FloatArray]) -> FloatArray:
        # Clip the result, since trial steps of the solver may overflow.
        with np.errstate(all="ignore"):
            predicted = self.model(by_row)
        return np.log(np.clip(np.nan_to_num(predicted, nan=_LONGEST_S), _SHORTEST_S, _LONGEST_S))

    def residuals(self, x: FloatArray) -> FloatArray:
        """Return the scaled log ratios, then the distances from the priors."""
        data = (self.log_model(x) - self.log_measured) * self.weights
        return np.concatenate([data, (x - self.x0) / self.spread])

    def jacobian(self, x: FloatArray) -> FloatArray:
        """Return the Jacobian of the residuals by forward differences, one evaluation per block."""
        n = len(self.log_measured)
        jacobian = np.zeros((n + len(x), len(x)))
        base = self.log_model(x)
        assert self._last is not None
        by_row = self._last[1]
        every = np.arange(n)
        for block, low, high in zip(self.blocks, self.offsets[:-1], self.offsets[1:], strict=True):
            # Shift all groups at once: each row reads only one of them.
            moved = {block.name: block.decode(x[low:high] + STEP)[block.rows]}
            change = (self._log_prediction({**by_row, **moved}) - base) / STEP * self.weights
            jacobian[every, low + block.rows] = change
        jacobian[n:] = np.diag(1.0 / self.spread)
        return jacobian


def fit_blocks(
    blocks: Sequence[Block],
    model: Model,
    measured: FloatArray,
    weights: FloatArray,
    max_evaluations: int,
    *,
    start: Mapping[str, FloatArray] | None = None,
) -> FitResult:
    """Fit the blocks to measured seconds, starting from the priors or from ``start``.

    ``weights`` multiply residuals.
    """
    from scipy.optimize import least_squares

    problem = _Problem(blocks, model, measured, weights)
    rows = len(measured)

    def loss(squares: Any) -> Any:
        """Return soft_l1 of the data, whose outliers are rows that differ in unpublished ways.

        Squares of the priors: no constant leaves its physical range, however many rows require it.
        """
        found = np.stack([squares, np.ones_like(squares), np.zeros_like(squares)])
        root = np.sqrt(1 + squares[:rows])
        found[:, :rows] = 2 * (root - 1), 1 / root, -0.5 / root**3
        return found

    begin = problem.x0
    if start is not None:
        begin = np.concatenate([replace(each, prior=start[each.name]).encode() for each in blocks])
    loss_of: Any = loss
    solution = least_squares(
        problem.residuals, begin, problem.jacobian, loss=loss_of, max_nfev=max_evaluations
    )
    jacobian = problem.jacobian(solution.x)
    covariance = np.linalg.pinv(jacobian.T @ jacobian)
    errors = np.sqrt(np.maximum(np.diag(covariance), 0.0))
    spreads = {
        block.name: errors[low:high]
        for block, low, high in zip(blocks, problem.offsets[:-1], problem.offsets[1:], strict=True)
    }
    return FitResult(problem.split(solution.x), spreads)
