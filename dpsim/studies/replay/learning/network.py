"""Small networks of linear layers and ReLUs on flat parameter vectors.

Many workers compute at once, each with parameters of its own.

There is no batch norm or dropout, so the gradient of a batch is the mean of its samples' gradients.
Weights are initialised as in He et al. ("Delving deep into rectifiers", ICCV 2015), biases at 0.
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from dpsim.base.arrays import IntArray, RealArray
from dpsim.studies.replay.learning.digits import CLASSES, SIDE


class Network:
    """Linear layers from each of ``sizes`` to the next, with ReLUs between them.

    One flat vector of ``parameters`` numbers, layer after layer, weights before biases.
    """

    def __init__(self, *sizes: int) -> None:
        self._shapes = tuple(pairwise(sizes))
        self.parameters = sum((inputs + 1) * outputs for inputs, outputs in self._shapes)

    def start(self, generator: np.random.Generator) -> RealArray:
        """Return initial parameters."""
        parts = []
        for inputs, outputs in self._shapes:
            parts += [
                generator.normal(0, np.sqrt(2 / inputs), inputs * outputs),
                np.zeros(outputs),
            ]
        return np.concatenate(parts)

    def scores(self, parameters: RealArray, images: RealArray) -> RealArray:
        """Return the scores (n, batch, 10) of images (n, batch, 64).

        ``parameters`` are (n, P), or (1, P) for all.
        """
        return self._forward(parameters, images)[-1]

    def gradients(
        self, parameters: RealArray, images: RealArray, labels: IntArray
    ) -> tuple[RealArray, RealArray]:
        """Return each worker's mean cross-entropy (n,) on its batch, and its gradient (n, P).

        Shapes as in `scores`, labels (n, batch).
        """
        *inputs_of_layers, scores = self._forward(parameters, images)
        loss, slope = cross_entropy(scores, labels)
        gradients = np.empty((len(images), self.parameters), dtype=parameters.dtype)
        layers, slopes = self._layers(parameters), self._layers(gradients)
        for inputs, (weights, _), (by_weights, by_biases) in zip(
            reversed(inputs_of_layers), reversed(layers), reversed(slopes), strict=True
        ):
            by_weights[...] = inputs.swapaxes(1, 2) @ slope
            by_biases[...] = slope.sum(axis=1, keepdims=True)
            if inputs is not images:  # no gradient by the images
                # ReLUs that are 0 have no gradient.
                slope = slope @ weights.swapaxes(1, 2) * (inputs > 0)
        return loss, gradients

    def _layers(self, vectors: RealArray) -> list[tuple[RealArray, RealArray]]:
        """Return each layer's part of flat vectors (n, P), as views.

        They are weights (n, inputs, outputs) and biases (n, 1, outputs).
        """
        parts, start = [], 0
        for inputs, outputs in self._shapes:
            end = start + inputs * outputs
            # Views: writing to the parts fills the vector.
            weights = vectors[:, start:end].reshape(-1, inputs, outputs)
            start = end + outputs
            parts.append((weights, vectors[:, None, end:start]))
        return parts

    def _forward(self, parameters: RealArray, images: RealArray) -> list[RealArray]:
        """Return the input of each layer, then the scores."""
        inputs_of_layers = [images]
        for number, (weights, biases) in enumerate(self._layers(parameters), start=1):
            out = inputs_of_layers[-1] @ weights + biases
            inputs_of_layers.append(out if number == len(self._shapes) else out * (out > 0))
        return inputs_of_layers


def cross_entropy(scores: RealArray, labels: IntArray) -> tuple[RealArray, RealArray]:
    """Return the mean over each batch (n,), and its derivative by the scores.

    The derivative has the shape (n, batch, classes).
    """
    loss, slope, total = _loss(scores, labels)
    # The derivative is the softmax, minus 1 at the right class.
    slope /= total
    right = labels[..., None]
    np.put_along_axis(slope, right, np.take_along_axis(slope, right, axis=-1) - 1, axis=-1)
    return loss, slope / labels.shape[-1]


def mean_loss(scores: RealArray, labels: IntArray) -> RealArray:
    """Return only the mean cross-entropy (n,), in half the time."""
    return _loss(scores, labels)[0]


def _loss(scores: RealArray, labels: IntArray) -> tuple[RealArray, RealArray, RealArray]:
    """Return the mean cross-entropy over each batch, the scores' exponentials, and their sums."""
    # Relative to the largest score, so that the exponential does not overflow.
    shifted = scores - scores.max(axis=-1, keepdims=True)
    powers = np.exp(shifted)
    total = powers.sum(axis=-1, keepdims=True)
    right = np.take_along_axis(shifted, labels[..., None], axis=-1)
    return (np.log(total) - right)[..., 0].mean(axis=-1), powers, total


NETWORKS = {"softmax": Network(SIDE**2, CLASSES), "mlp": Network(SIDE**2, 32, CLASSES)}
