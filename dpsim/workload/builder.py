"""Builds a model layer by layer, and tracks the shape of the activations between layers.

Masks and pooling indices, which backward also needs, are left out: a few percent.
"""

from __future__ import annotations

from collections.abc import Callable
from math import prod

from dpsim.workload.layer import Layer
from dpsim.workload.layer_stack import LayerStack

Size = int | tuple[int, ...]


class Builder(LayerStack):
    """A `LayerStack` with the layers of images and of sequences."""

    # Images

    def conv(
        self,
        name: str,
        channels: int,
        kernel: Size,
        stride: Size = 1,
        padding: Size = 0,
        *,
        bias: bool = False,
        groups: int = 1,
        dilation: int = 1,
        tied: bool = False,
    ) -> None:
        """Add a convolution over (channels, length...), in any number of dimensions.

        Each of ``groups`` uses its share of the channels (one channel each: depthwise). ``tied``
        uses the weights of another layer, like a head shared by several image sizes.
        """
        sides = self._per_dimension(kernel)
        inner = self.shape[0] // groups * prod(sides)
        window = tuple(dilation * (side - 1) + 1 for side in sides)
        output = self._window(window, stride, padding)
        # Each pixel of the output uses all weights once.
        product = (prod(output), inner, channels)
        self._convolution(name, (channels, *output), product, bias=bias, tied=tied)

    def conv_transpose(
        self, name: str, channels: int, kernel: Size, stride: Size = 1, *, bias: bool = False
    ) -> None:
        """Add a transposed convolution: each input pixel adds a window to the output."""
        sides, steps = self._per_dimension(kernel), self._per_dimension(stride)
        output = tuple(
            (side - 1) * step + window
            for side, step, window in zip(self.shape[1:], steps, sides, strict=True)
        )
        product = (prod(self.shape[1:]), self.shape[0], channels * prod(sides))
        self._convolution(name, (channels, *output), product, bias=bias)

    def _convolution(
        self,
        name: str,
        output: tuple[int, ...],
        product: tuple[int, int, int],
        *,
        bias: bool,
        tied: bool = False,
    ) -> None:
        """Add a convolution as a matrix ``product``: its rows, inner terms and columns."""
        entering, weight = self.size, product[1] * product[2]
        self.shape = output
        self._matrix(
            name,
            "conv",
            () if tied else (weight, output[0]) if bias else (weight,),
            2 * product[0] * weight,
            entering + self.size,
            kept=self.size,
            borrowed=weight if tied else 0,
            shape=product,
        )

    def batch_norm(self, name: str, *, kept: bool = True) -> None:
        """Add a normalisation over the batch.

        Forward reads to compute the moments, then reads and writes to normalise; backward reads two
        tensors twice and writes one.
        """
        self._by_channel(name, kept=kept, over_batch=True)

    def group_norm(self, name: str) -> None:
        """Add a normalisation over groups of a sample's channels (of one: an instance norm)."""
        self._by_channel(name)

    def _by_channel(self, name: str, *, kept: bool = True, over_batch: bool = False) -> None:
        channels = self.shape[0]
        self._memory(
            name,
            "norm",
            3 * self.size,
            5 * self.size,
            parameters=(channels, channels),
            kept=self.size if kept else 0,
            over_batch=over_batch,
        )

    def pool(
        self, name: str, kernel: Size, stride: int = 1, padding: Size = 0, *, ceil: bool = False
    ) -> None:
        """Add maximum or average pooling over windows."""
        entering = self.size
        window = self._window(self._per_dimension(kernel), stride, padding, ceil=ceil)
        self.shape = (self.shape[0], *window)
        self._memory(name, "pool", entering + self.size, entering + self.size, kept=self.size)

    def global_pool(self, name: str) -> None:
        """Add an average over the whole image."""
        entering = self.size
        self.shape = (self.shape[0], *[1] * (len(self.shape) - 1))
        self._memory(name, "pool", entering + self.size, entering + self.size, kept=self.size)

    def flatten(self) -> None:
        """Flatten to one vector per sample, which moves no data."""
        self.shape = (self.size,)

    def concatenate(self, name: str, *branches: Callable[[], None]) -> None:
        """Apply each branch to the input, and concatenate (copy) the results along the channels."""
        entering, channels = self.shape, 0
        for branch in branches:
            self.shape = entering
            branch()
            channels += self.shape[0]
        self.shape = (channels, *self.shape[1:])
        self._memory(name, "elementwise", 2 * self.size, 2 * self.size, kept=self.size)

    def upsample(self, name: str, factor: int) -> None:
        """Add nearest-neighbour upsampling: repeat each pixel ``factor`` x ``factor`` times."""
        entering = self.size
        self.shape = (self.shape[0], *(factor * side for side in self.shape[1:]))
        self._memory(
            name, "elementwise", entering + self.size, entering + self.size, kept=self.size
        )

    def squeeze_excite(self, name: str, squeezed: int) -> None:
        """Add squeeze-and-excitation: layers on channel means scale channels (Hu et al. 2018)."""
        entering = self.shape
        self.global_pool(f"{name}.avgpool")
        self.flatten()
        self.linear(f"{name}.fc1", squeezed)
        self.activation(f"{name}.act", kept=True)
        self.linear(f"{name}.fc2", entering[0])
        self.activation(f"{name}.sigmoid", kept=True)
        self.shape = entering
        # An element-wise product, with the traffic of a sum.
        self.add(f"{name}.scale", kept=True)

    def roi_align(self, name: str, boxes: int, side: int) -> None:
        """Cut ``boxes`` out of an image, each averaged to ``side`` x ``side`` (He et al. 2017).

        Each output pixel averages four points, interpolated between pixels that are mostly in the
        cache: four are counted as read. Backward adds to them. Boxes are stacked along the height.
        """
        self.shape = (self.shape[0], boxes * side, side)
        self._memory(name, "pool", 5 * self.size, 9 * self.size, kept=self.size)

    def _window(
        self, kernel: tuple[int, ...], stride: Size, padding: Size, *, ceil: bool = False
    ) -> tuple[int, ...]:
        """Return the sides of the output of a window of ``kernel`` over the image."""
        return tuple(
            (side + 2 * pad - window + (step - 1 if ceil else 0)) // step + 1
            for side, pad, window, step in zip(
                self.shape[1:],
                self._per_dimension(padding),
                kernel,
                self._per_dimension(stride),
                strict=True,
            )
        )

    def _per_dimension(self, size: Size) -> tuple[int, ...]:
        """Return the size in each dimension of the image: ``size`` itself, or a number for all."""
        return size if isinstance(size, tuple) else (size,) * (len(self.shape) - 1)

    # Sequences

    def embedding(self, name: str, entries: int, width: int, *, tied: bool = False) -> None:
        """Look up a table's row for each token; ``tied``: the table belongs to an earlier layer."""
        self._has_weights = True
        self.shape = (self.shape[0], width)
        table = () if tied else (entries * width,)
        self._memory(name, "embedding", 2 * self.size, 2 * self.size, parameters=table)

    def layer_norm(self, name: str) -> None:
        """Add a layer normalisation: backward reads two tensors twice and writes one."""
        width = self.shape[-1]
        self._memory(
            name, "norm", 2 * self.size, 5 * self.size, parameters=(width, width), kept=self.size
        )

    def rms_norm(self, name: str, *, heads: int | None = None, weights: bool = True) -> None:
        """Add a layer normalisation without mean and bias, and optionally without weights.

        With ``heads`` each head is normalised separately, by the same weights.
        """
        self._memory(
            name,
            "norm",
            2 * self.size,
            5 * self.size,
            parameters=(self.shape[-1] // (heads or 1),) if weights else (),
            kept=self.size,
        )

    def attention(
        self, name: str, heads: int, *, keys: int | None = None, relative: bool = False
    ) -> None:
        """Add softmax(Q K^T) V over all pairs of tokens, by kernels that materialise the scores.

        For T tokens of width d that attend to K ``keys`` (themselves if left out) this takes 4 T K
        d FLOP; causal attention computes the masked half too. Scaling, mask, softmax and dropout
        move the T x K scores of each head eight times in each direction, and two results are kept.
        ``relative`` positions need a second product of scores (Dai et al. 2019).
        """
        tokens, width = self.shape
        keys = tokens if keys is None else keys
        # One product, over all heads.
        flop, scores, moved = (
            2 * tokens * keys * width,
            heads * tokens * keys,
            (tokens + keys) * width,
        )
        self._matrix(f"{name}.scores", "attention", (), flop, moved + scores, kept=0)
        if relative:
            self._matrix(f"{name}.positions", "attention", (), flop, moved + scores, kept=0)
        self._memory(f"{name}.softmax", "elementwise", 8 * scores, 8 * scores, kept=2 * scores)
        self._matrix(f"{name}.context", "attention", (), flop, moved + scores, kept=self.size)

    def weighted_sum(self, name: str, keys: int) -> None:
        """Add a softmax over ``keys`` weights per token, and the weighted sum of their vectors."""
        tokens, width = self.shape
        weights, moved = tokens * keys, (tokens + keys) * width
        self._memory(f"{name}.softmax", "elementwise", 2 * weights, 3 * weights, kept=weights)
        self._matrix(name, "attention", (), 2 * weights * width, moved + weights, kept=self.size)

    def pair_products(self, name: str) -> None:
        """Add the dot product of each pair of input vectors."""
        vectors, width = self.shape
        entering = self.size
        self.shape = (vectors * (vectors - 1) // 2,)
        flop = 2 * vectors * vectors * width
        self._matrix(name, "attention", (), flop, entering + self.size, kept=self.size)

    def selective_scan(self, name: str, state: int) -> None:
        """Add a scan over tokens, with ``state`` values per channel (Gu and Dao 2023).

        One kernel reads input, step, gate and the vectors that write and read the state. It does
        not write the states; backward recomputes them.
        """
        tokens, width = self.shape
        vectors = 2 * tokens * state
        self._memory(
            name,
            "elementwise",
            4 * self.size + vectors,
            7 * self.size + 2 * vectors,
            parameters=(state * width, width),
            kept=self.size,
        )

    def fused_attention(
        self,
        name: str,
        heads: int,
        groups: int | None = None,
        *,
        keys: int | None = None,
        window: int | None = None,
    ) -> None:
        """Add `attention` in one kernel that does not materialise the scores.

        ``groups`` heads of keys and values are shared by all ``heads``; a token attends to K
        ``keys``, or to those in a ``window`` around it. Forward takes 4 T K d FLOP, backward, which
        recomputes the scores, 10 T K d (FlashAttention, Dao et al. 2022; like torch, this counts
        the masked half, which causal kernels skip). Kept: the output, a number per head and token.
        """
        tokens, width = self.shape
        keys = tokens if keys is None else keys
        attended = keys if window is None else min(keys, window)
        # Queries and output have the full width, keys and values that of their groups.
        moved = 2 * self.size + 2 * keys * width * (groups or heads) // heads
        self._layers.append(
            Layer(
                name,
                "attention",
                forward_flop=4 * tokens * attended * width,
                backward_flop=10 * tokens * attended * width,
                forward_traffic=moved,
                backward_traffic=2 * moved,
                activations=self.size + heads * tokens,
                head=width // heads,
            )
        )

    def recurrent(self, name: str, width: int, *, gates: int = 4, suffix: str = "") -> None:
        """Add one direction of an LSTM (4 ``gates``) or GRU layer (3), with two biases as in torch.

        One product with the inputs covers all tokens; the products with the state are sequential.
        """
        tokens, inner = self.shape
        entering, self.shape = self.size, (tokens, gates * width)
        # The gates' products with the inputs wait for nothing, and are one product over all tokens.
        weights = gates * width * inner
        self._matrix(
            f"{name}.ih{suffix}",
            "linear",
            (weights,),
            2 * tokens * weights,
            entering + self.size,
            kept=self.size,
        )
        # The products with the state: each token waits for the previous one.
        weights, gated, self.shape = gates * width * width, self.size, (tokens, width)
        self._matrix(
            f"{name}.hh{suffix}",
            "linear",
            (weights, gates * width, gates * width),
            2 * tokens * weights,
            2 * gated + 3 * self.size,
            kept=(gates - 2) * self.size,  # the output, and an LSTM's cell
            steps=tokens,
        )

    def bidirectional(self, name: str, width: int, *, gates: int = 4, concatenated: bool) -> None:
        """Add a recurrent layer in both directions, its outputs ``concatenated`` or summed."""
        entering = self.shape
        self.recurrent(name, width, gates=gates)
        self.shape = entering
        self.recurrent(name, width, gates=gates, suffix="_reverse")
        if concatenated:
            self.shape = (entering[0], 2 * width)
            self.activation(f"{name}.cat", kept=True)
        else:
            self.add(f"{name}.sum", kept=True)

    def experts(self, name: str, count: int, active: int, inner: int) -> None:
        """Add ``count`` gated feed-forward layers, of which ``active`` process each token.

        The weights and gradients of all experts are moved, because a batch has tokens for each.
        Tokens are sorted by expert for one grouped product, and then summed by their weights
        (Shazeer et al. 2017).
        """
        tokens, width = self.shape
        self.linear(f"{name}.gate", count, bias=False)
        self.activation(f"{name}.top_k", kept=True)
        self.shape = (tokens * active, width)
        self.activation(f"{name}.sorted", kept=True)
        self._grouped(f"{name}.experts.gate_up_proj", count, 2 * inner)
        self.shape = (tokens * active, inner)
        self.add(f"{name}.experts.silu", kept=True)  # of one half, times the other
        self._grouped(f"{name}.experts.down_proj", count, width)
        self.shape = (tokens, width)
        self.add(f"{name}.weighted_sum", terms=active)

    def _grouped(self, name: str, count: int, width: int) -> None:
        """Add the product of tokens, sorted by expert, with their expert's weights."""
        entering, inner = self.size, self.shape[-1]
        self.shape = (self.shape[0], width)
        flop = 2 * inner * self.size
        weights = count * inner * width
        self._matrix(name, "linear", (weights,), flop, entering + self.size, kept=self.size)
