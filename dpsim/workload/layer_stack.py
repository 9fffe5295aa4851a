"""A model's layers under construction, and the layers common to all kinds of models.

Kept activations follow torch: a layer keeps its output if a later backward needs it; in-place
operations (ReLU, a residual sum of images) keep nothing.
"""

from __future__ import annotations

from math import prod

from dpsim.workload.layer import Kind, Layer, Model

Shape = tuple[int, ...]


class LayerStack:
    """The layers so far, and a sample's ``shape``: (channels, height, width) or (tokens, width)."""

    def __init__(self, shape: Shape) -> None:
        self.shape = shape
        self._layers: list[Layer] = []
        self._has_weights = False

    def build(self, name: str, sample: str) -> Model:
        """Return the finished model."""
        return Model(name, tuple(self._layers), sample)

    @property
    def size(self) -> int:
        """Elements of one sample in the current shape."""
        return prod(self.shape)

    def _matrix(
        self,
        name: str,
        kind: Kind,
        parameters: tuple[int, ...],
        flop: int,
        traffic: int,
        *,
        kept: int,
        borrowed: int = 0,
        steps: int = 1,
        shape: tuple[int, int, int] | None = None,
    ) -> None:
        """Add a matrix product.

        Backward costs a forward for the gradient by the weights, and another for that by the input.
        """
        # The first layer with weights needs no gradient by its input.
        gradients = 2 if self._has_weights else 1
        self._layers.append(
            Layer(
                name,
                kind,
                parameters,
                borrowed=borrowed,
                forward_flop=flop,
                backward_flop=gradients * flop,
                forward_traffic=traffic,
                backward_traffic=gradients * traffic,
                activations=kept,
                steps=steps,
                shape=shape,
            )
        )
        self._has_weights = True

    def _memory(
        self,
        name: str,
        kind: Kind,
        forward: int,
        backward: int,
        *,
        parameters: tuple[int, ...] = (),
        kept: int = 0,
        over_batch: bool = False,
    ) -> None:
        """Add a layer without matrix products, by the elements that each pass moves."""
        self._layers.append(
            Layer(
                name,
                kind,
                parameters,
                forward_traffic=forward,
                # Layers before the first weights need no gradient.
                backward_traffic=backward if self._has_weights else 0,
                activations=kept,
                over_batch=over_batch,
            )
        )

    def parameter(self, name: str, elements: int) -> None:
        """Add a parameter tensor that is added or prepended to the input, such as positions."""
        self._memory(name, "elementwise", 2 * self.size, 2 * self.size, parameters=(elements,))

    def linear(
        self,
        name: str,
        width: int,
        *,
        bias: bool | None = None,
        tied: bool = False,
        kept: bool = True,
    ) -> None:
        """Add a matrix product over the last dimension.

        ``tied`` uses the weights of another layer, without a bias unless ``bias`` is given.
        """
        entering, inner = self.size, self.shape[-1]
        self.shape = (*self.shape[:-1], width)
        own: tuple[int, ...] = () if tied else (inner * width,)
        if bias or (bias is None and not tied):
            own += (width,)
        # Read here, but stored, sent and updated by their owner.
        borrowed = inner * width if tied else 0
        flop = 2 * inner * self.size
        self._matrix(
            name,
            "linear",
            own,
            flop,
            entering + self.size,
            kept=self.size if kept else 0,
            borrowed=borrowed,
            # The compute law uses the shape only of products over tokens.
            shape=(entering // inner, inner, width) if len(self.shape) > 1 else None,
        )

    def activation(self, name: str, *, kept: bool = False) -> None:
        """Add an element-wise function, in place unless its output is ``kept``."""
        self._memory(
            name, "elementwise", 2 * self.size, 3 * self.size, kept=self.size if kept else 0
        )

    def cross_entropy(self, name: str) -> None:
        """Add the loss over a vocabulary: a softmax and its logarithm."""
        self._memory(name, "loss", 2 * self.size, 3 * self.size, kept=self.size)

    def add(self, name: str, *, terms: int = 2, kept: bool = False) -> None:
        """Add a sum of ``terms`` tensors, such as a residual connection.

        Backward sums the gradients of the paths.
        """
        self._memory(
            name,
            "elementwise",
            2 * terms * self.size - self.size,
            3 * self.size,
            kept=self.size if kept else 0,
        )
