"""What stands in for torch's operators that shapes alone do not answer.

A trace on the meta device has no data. Where an operator asks for some (``.item()`` on a mask,
``nonzero``, an index by a mask), it gets an answer that keeps the trace going, and the trace notes
it: sizes at their most, flags not set, numbers in the middle of 0 to 1. Attention goes to the fused
kernel that GPUs would take, and grouped products to the one precision that they know.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from math import prod
from typing import Any


class StandIns:
    """Answers of one trace; ``guessed`` are the operators whose answer stands in for data."""

    def __init__(self, torch: Any) -> None:
        self._torch = torch
        self.guessed: dict[str, None] = {}
        self._answers: dict[str, Callable[..., Any]] = {
            "aten.rand": self._draw,
            "aten._grouped_mm": self._in_half,
            "aten._local_scalar_dense": self._scalar,
            "aten.nonzero": self._nonzero,
            "aten.masked_select": self._selected,
            **dict.fromkeys(
                ("aten.index", "aten.index_put", "aten.index_put_", "aten._index_put_impl_"),
                self._by_places,
            ),
        }

    def answer(self, func: Any, args: Any, kwargs: Any) -> Any:
        """What the operator answers here; NotImplemented where torch answers by itself."""
        answer = self._answers.get(str(func._overloadpacket))
        return NotImplemented if answer is None else answer(func, args, kwargs)

    def _is_meta(self, value: Any) -> bool:
        return isinstance(value, self._torch.Tensor) and value.device.type == "meta"

    def _draw(self, func: Any, args: Any, kwargs: Any) -> Any:
        """Random numbers of the host, by which layers are dropped: in the middle, so none is."""
        drawn = func(*args, **kwargs)
        return drawn if self._is_meta(drawn) else drawn.fill_(0.5)

    def _scalar(self, func: Any, args: Any, kwargs: Any) -> Any:
        tensor = args[0]
        if not self._is_meta(tensor):
            return NotImplemented
        self.guessed.setdefault("item")
        # A condition on data is taken as not met, and told as a guess.
        if tensor.dtype == self._torch.bool:
            return False
        return 0.5 if tensor.dtype.is_floating_point else 1

    def _nonzero(self, func: Any, args: Any, kwargs: Any) -> Any:
        return self._places(args[0]) if self._is_meta(args[0]) else NotImplemented

    def _selected(self, func: Any, args: Any, kwargs: Any) -> Any:
        if not self._is_meta(args[0]):
            return NotImplemented
        self.guessed.setdefault("masked_select")
        return self._torch.empty(args[0].numel(), dtype=args[0].dtype, device="meta")

    def _places(self, mask: Any) -> Any:
        """Indices of the elements that are not 0, which may be all."""
        self.guessed.setdefault("nonzero")
        return self._torch.empty(mask.numel(), mask.dim(), dtype=self._torch.int64, device="meta")

    def _by_places(self, func: Any, args: Any, kwargs: Any) -> Any:
        """An index or an assignment by masks, as one by the places where they are set."""
        if not any(self._is_mask(index) for index in args[1]):
            return NotImplemented
        places: list[Any] = []
        for index in args[1]:
            places += self._places(index).unbind(1) if self._is_mask(index) else [index]
        return func(args[0], places, *args[2:], **kwargs)

    def _is_mask(self, index: Any) -> bool:
        return self._is_meta(index) and index.dtype in (self._torch.bool, self._torch.uint8)

    def _in_half(self, func: Any, args: Any, kwargs: Any) -> Any:
        """A grouped product of any precision: its kernels know bf16 alone."""
        wanted = args[0].dtype
        halves = [
            one.to(self._torch.bfloat16)
            if isinstance(one, self._torch.Tensor) and one.is_floating_point()
            else one
            for one in args
        ]
        return func(*halves, **kwargs).to(wanted)


def fused_attention(torch: Any) -> Any:
    """A mode in which attention is one kernel, as it is on GPUs that have one.

    The meta device has none, so that torch would write the scores out there. A mask changes little
    of what the kernel moves and is left out, but for one that is learnt.
    """
    functions = importlib.import_module("torch.nn.functional")
    modes: Any = importlib.import_module("torch.overrides")

    class Fused(modes.TorchFunctionMode):  # type: ignore[misc]
        def __torch_function__(
            self, func: Any, types: Any, args: Any = (), kwargs: Any = None
        ) -> Any:
            kwargs = kwargs or {}
            if func is functions.scaled_dot_product_attention:
                output = _one_kernel(torch, *args, **kwargs)
                if output is not None:
                    return output
            return func(*args, **kwargs)

    return Fused()


def _one_kernel(
    torch: Any,
    query: Any,
    key: Any,
    value: Any,
    attn_mask: Any = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    **more: Any,
) -> Any:
    """Attention by the fused kernel; None where it would not be taken."""
    learnt = attn_mask is not None and attn_mask.requires_grad
    if query.dim() != 4 or learnt or query.device.type != "meta":
        return None
    scale = more.get("scale")
    if query.shape[3] == value.shape[3]:
        # By the operator that the GPU's own would be, so that its FLOP and its traffic are counted.
        flash = torch.ops.aten._scaled_dot_product_flash_attention
        return flash(query, key, value, dropout_p, is_causal, scale=scale)[0]
    if query.shape[1] != value.shape[1]:
        return None
    # Values of a width of their own: the other kernel that writes no scores.
    efficient = torch.ops.aten._scaled_dot_product_efficient_attention
    return efficient(query, key, value, None, True, dropout_p, is_causal, scale=scale)[0]


def _attention_flop(query: Any, key: Any, value: Any, *args: Any, **kwargs: Any) -> int:
    """Two products of all queries with all keys, also where a causal kernel skips half.

    Fewer heads of keys than of queries serve several each.
    """
    batch, heads, queries, width = query.shape
    return int(2 * batch * heads * queries * key.shape[2] * (width + value.shape[3]))


def _attention_backward_flop(
    gradient: Any, query: Any, key: Any, value: Any, *args: Any, **kwargs: Any
) -> int:
    """Five products for forward's two: the scores are computed anew."""
    return _attention_flop(query, key, value) * 5 // 2


def _convolution_backward_flop(gradient: Any, image: Any, weight: Any, *args: Any) -> int:
    """As forward, for each of the two gradients that are wanted, in groups of channels too.

    ``args`` are the operator's others: bias, stride, padding, dilation, whether transposed, the
    padding of the output, groups, and which gradients are wanted.
    """
    transposed, wanted = args[4], args[7]
    # The weights are multiplied at each place of the output, or of the input where transposed.
    places = image.shape[2:] if transposed else gradient.shape[2:]
    forward = 2 * image.shape[0] * prod(places) * weight.numel()
    return int(forward * (bool(wanted[0]) + bool(wanted[1])))


def _grouped_flop(left: Any, right: Any, *args: Any, **kwargs: Any) -> int:
    """2 m k n: the rows of a flat operand are spread over the groups, those of a stacked one not.

    Stacked times flat gives columns that are spread over the groups instead.
    """
    spread = left.dim() == 2 or right.dim() == 3
    rows = left.numel() if spread else left.shape[1] * left.shape[2]
    return int(2 * rows * right.shape[-1])


def formulas(torch: Any) -> dict[Any, Callable[..., int]]:
    """FLOP of operators that torch's counter does not know, or not in each version."""
    aten = torch.ops.aten
    found: dict[Any, Callable[..., int]] = {
        aten._scaled_dot_product_flash_attention: _attention_flop,
        aten._scaled_dot_product_flash_attention_backward: _attention_backward_flop,
        aten.convolution_backward: _convolution_backward_flop,
    }
    if hasattr(aten, "_grouped_mm"):
        found[aten._grouped_mm] = _grouped_flop
    return found
