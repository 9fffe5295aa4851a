"""Small networks of linear layers and ReLUs on flat parameter vectors.

Many workers compute at once, each with parameters of its own.

A convolution is a linear layer on patches: a table lists the inputs of each patch. There is no
batch norm or dropout, so the gradient of a batch is the mean of its samples' gradients. Weights are
initialised as in He et al. ("Delving deep into rectifiers", ICCV 2015), biases at 0.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from dpsim.base.arrays import IntArray, RealArray
from dpsim.base.registry import Registry
from dpsim.studies.replay.learning.digits import CLASSES, SIDE
from dpsim.workload import import_torch


@dataclass(frozen=True, slots=True, eq=False)
class Layer:
    """A linear layer from patches of ``inputs`` numbers to ``outputs`` each.

    ``patches`` (patches, inputs): the inputs of each patch; None: a single patch of all.
    """

    inputs: int
    outputs: int
    patches: IntArray | None = None

    @property
    def parameters(self) -> int:
        """The number of weights and biases."""
        return (self.inputs + 1) * self.outputs


class Network:
    """Layers with ReLUs between them.

    One flat vector of ``parameters`` numbers, layer after layer, weights before biases.
    """

    def __init__(self, layers: Sequence[Layer]) -> None:
        self.layers = tuple(layers)
        self._ends = np.cumsum([0, *(layer.parameters for layer in self.layers)]).tolist()
        self.parameters: int = self._ends[-1]

    def start(self, generator: np.random.Generator) -> RealArray:
        """Return initial parameters."""
        parts = []
        for layer in self.layers:
            parts += [
                generator.normal(0, np.sqrt(2 / layer.inputs), layer.inputs * layer.outputs),
                np.zeros(layer.outputs),
            ]
        return np.concatenate(parts)

    def scores(self, parameters: Any, images: Any) -> Any:
        """Return the scores (n, batch, 10) of images (n, batch, 64), in numpy or torch.

        ``parameters`` are (n, P), or (1, P) for all.
        """
        return self._forward(parameters, images)[-1]

    def gradients(
        self, parameters: RealArray, images: RealArray, labels: IntArray
    ) -> tuple[RealArray, RealArray]:
        """Return each worker's mean cross-entropy (n,) on its batch, and its gradient (n, P).

        Shapes as in `scores`, labels (n, batch).
        """
        inputs = self._forward(parameters, images)
        loss, slope = cross_entropy(inputs.pop(), labels)
        found = np.empty((len(images), self.parameters), dtype=parameters.dtype)
        for number in reversed(range(len(self.layers))):
            slope = self._backward(number, parameters, inputs[number], slope, found)
        return loss, found

    def _part(self, number: int, vectors: Any) -> tuple[Any, Any]:
        """Return a layer's part of flat vectors (n, P), as views.

        They are weights (n, inputs, outputs) and biases (n, 1, outputs).
        """
        layer, start, end = self.layers[number], self._ends[number], self._ends[number + 1]
        # Slices of contiguous rows: reshape copies nothing, and writing to the parts fills the
        # vector.
        weights = vectors[:, start : end - layer.outputs].reshape(-1, layer.inputs, layer.outputs)
        return weights, vectors[:, None, end - layer.outputs : end]

    def _forward(self, parameters: Any, images: Any) -> list[Any]:
        """Return the input of each layer, then the scores."""
        passed = [images]
        for number, layer in enumerate(self.layers):
            weights, biases = self._part(number, parameters)
            out = (_patched(layer, passed[-1]) @ weights + biases).reshape(*images.shape[:2], -1)
            # Not np.maximum: this also works for torch tensors.
            passed.append(out if number == len(self.layers) - 1 else out * (out > 0))
        return passed

    def _backward(
        self,
        number: int,
        parameters: RealArray,
        inputs: RealArray,
        slope: RealArray,
        found: RealArray,
    ) -> RealArray:
        """Fill in a layer's gradient; return the gradient by the layer's input."""
        layer = self.layers[number]
        gathered = _patched(layer, inputs)
        slope = slope.reshape(*gathered.shape[:2], layer.outputs)
        weights, biases = self._part(number, found)
        weights[...] = gathered.swapaxes(1, 2) @ slope
        biases[...] = slope.sum(axis=1, keepdims=True)

        # The gradient by the images is not needed.
        if number == 0:
            return slope
        layer_weights, _ = self._part(number, parameters)
        by_inputs = _scattered(layer, slope @ layer_weights.swapaxes(1, 2), inputs.shape)
        # The inputs are a ReLU's output: 0 where it was cut off and has no gradient.
        return by_inputs * (inputs > 0)


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
    """Return the mean cross-entropy alone (n,), in half of the time."""
    return _loss(scores, labels)[0]


def _loss(scores: RealArray, labels: IntArray) -> tuple[RealArray, RealArray, RealArray]:
    """Return the mean cross-entropy over each batch, the scores' exponentials, and their sums."""
    # Without subtracting the largest score, the exponential would overflow.
    shifted = scores - scores.max(axis=-1, keepdims=True)
    powers = np.exp(shifted)
    total = powers.sum(axis=-1, keepdims=True)
    right = np.take_along_axis(shifted, labels[..., None], axis=-1)
    return (np.log(total) - right)[..., 0].mean(axis=-1), powers, total


def _patched(layer: Layer, inputs: Any) -> Any:
    """Reshape (n, batch, numbers) to (n, batch x patches, inputs of a patch)."""
    if layer.patches is None:
        return inputs
    return inputs[:, :, layer.patches.reshape(-1)].reshape(inputs.shape[0], -1, layer.inputs)


def _scattered(layer: Layer, slopes: RealArray, shape: tuple[int, ...]) -> RealArray:
    """Reverse `_patched` for gradients: those of an input in several patches are added."""
    if layer.patches is None:
        return slopes
    slopes = slopes.reshape(*shape[:2], *layer.patches.shape)
    total = np.zeros(shape, dtype=slopes.dtype)
    # No two patches have the same input at the same place, so that each addition is one of whole
    # arrays; over all places at once numpy would add only the last of equal indices.
    for place in range(layer.inputs):
        total[:, :, layer.patches[:, place]] += slopes[..., place]
    return total


def patches(side: int, channels: int, kernel: int, stride: int) -> IntArray:
    """Return the inputs of each position of a square kernel (positions, numbers).

    The image has ``side`` x ``side`` x ``channels`` numbers, the channel last.
    """
    corners = np.arange(0, side - kernel + 1, stride)
    # Rows (corners, 1, kernel, 1) and columns (corners, 1, kernel) spread to (corners, corners,
    # kernel, kernel): down and across over positions, then over the window.
    rows = corners[:, None, None, None] + np.arange(kernel)[:, None]
    columns = corners[:, None, None] + np.arange(kernel)
    pixels = (rows * side + columns).reshape(len(corners) ** 2, kernel**2)
    return (pixels[:, :, None] * channels + np.arange(channels)).reshape(len(pixels), -1)


def _dense(*sizes: int) -> Network:
    return Network([Layer(inputs, outputs) for inputs, outputs in pairwise(sizes)])


def _cnn() -> Network:
    """Return a CNN: 8 x 8 pixels to 3 x 3 positions of 8 channels, 2 x 2 of 16, the classes."""
    first, second = patches(SIDE, 1, 4, 2), patches(3, 8, 2, 1)
    return Network([Layer(16, 8, first), Layer(32, 16, second), Layer(64, CLASSES)])


class TorchNetwork(Network):
    """A network that torch computes, whose own differentiation finds the gradients.

    Raises DpsimError, with how to install it, where it is missing.
    """

    def __init__(self, network: Network) -> None:
        super().__init__(network.layers)
        self._torch: Any = import_torch()

    def gradients(
        self, parameters: RealArray, images: RealArray, labels: IntArray
    ) -> tuple[RealArray, RealArray]:
        """The same as that of the original network."""
        torch = self._torch
        # A row of weights for each worker, also where all share one: gradients come out apart.
        weights = torch.tensor(parameters).expand(len(images), -1).contiguous().requires_grad_()
        scores = self.scores(weights, torch.tensor(images))
        # (n, classes, batch): torch wants the classes second.
        losses = torch.nn.functional.cross_entropy(
            scores.transpose(1, 2), torch.tensor(labels), reduction="none"
        ).mean(dim=1)
        # Each row of weights is in its own worker's loss alone, so the sum mixes no gradients.
        losses.sum().backward()
        return losses.detach().numpy(), weights.grad.numpy()


NETWORKS = Registry(
    "model to replay",
    {"softmax": _dense(64, CLASSES), "mlp": _dense(64, 32, CLASSES), "cnn": _cnn()},
)
