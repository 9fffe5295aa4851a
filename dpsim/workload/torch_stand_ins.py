"""Stand-ins for torch's operators whose results depend on data.

A trace on the meta device has no data. An operator that needs data (``.item()`` on a mask,
``nonzero``, an index by a mask) gets a result with which the trace can continue, and the trace
records it: sizes at their maximum, flags not set, numbers in the middle of 0 to 1. Attention is
redirected to the fused kernel that GPUs would use, and grouped products to the only precision that
they support.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from math import prod
from typing import Any


class StandIns:
    """Stand-ins of one trace; ``guessed`` are the operators whose results replace data."""

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
        """Return the operator's stand-in result; NotImplemented if torch computes it."""
        answer = self._answers.get(str(func._overloadpacket))
        return NotImplemented if answer is None else answer(func, args, kwargs)

    def _is_meta(self, value: Any) -> bool:
        return isinstance(value, self._torch.Tensor) and value.device.type == "meta"

    def _draw(self, func: Any, args: Any, kwargs: Any) -> Any:
        """Draw random numbers on the host, fixed at 0.5, so that no layer is dropped."""
        drawn = func(*args, **kwargs)
        return drawn if self._is_meta(drawn) else drawn.fill_(0.5)

    def _scalar(self, func: Any, args: Any, kwargs: Any) -> Any:
        tensor = args[0]
        if not self._is_meta(tensor):
            return NotImplemented
        self.guessed.setdefault("item")
        # A condition on data is assumed false, and reported as a guess.
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
        """Return indices of the nonzero elements, assumed to be all."""
        self.guessed.setdefault("nonzero")
        return self._torch.empty(mask.numel(), mask.dim(), dtype=self._torch.int64, device="meta")

    def _by_places(self, func: Any, args: Any, kwargs: Any) -> Any:
        """Replace masks in an index or assignment by the indices at which they are set."""
        if not any(self._is_mask(index) for index in args[1]):
            return NotImplemented
        places: list[Any] = []
        for index in args[1]:
            places += self._places(index).unbind(1) if self._is_mask(index) else [index]
        return func(args[0], places, *args[2:], **kwargs)

    def _is_mask(self, index: Any) -> bool:
        return self._is_meta(index) and index.dtype in (self._torch.bool, self._torch.uint8)

    def _in_half(self, func: Any, args: Any, kwargs: Any) -> Any:
        """Compute a grouped product of any precision in bf16, the only one its kernels support."""
        wanted = args[0].dtype
        halves = [
            one.to(self._torch.bfloat16)
            if isinstance(one, self._torch.Tensor) and one.is_floating_point()
            else one
            for one in args
        ]
        return func(*halves, **kwargs).to(wanted)


def fused_attention(torch: Any) -> Any:
    """Return a mode in which attention is one kernel, as on GPUs that have one.

    The meta device has none, so torch would materialise the scores there. A mask changes little of
    the kernel's traffic and is left out, unless it is learned.
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
    """Return attention by the fused kernel; None if it does not apply."""
    learnt = attn_mask is not None and attn_mask.requires_grad
    if query.dim() != 4 or learnt or query.device.type != "meta":
        return None
    scale = more.get("scale")
    if query.shape[3] == value.shape[3]:
        # Use the operator of the GPU, so that its FLOP and traffic are counted.
        flash = torch.ops.aten._scaled_dot_product_flash_attention
        return flash(query, key, value, dropout_p, is_causal, scale=scale)[0]
    if query.shape[1] != value.shape[1]:
        return None
    # Values of a different width: the other kernel that does not materialise scores.
    efficient = torch.ops.aten._scaled_dot_product_efficient_attention
    return efficient(query, key, value, None, True, dropout_p, is_causal, scale=scale)[0]


def _attention_flop(query: Any, key: Any, value: Any, *args: Any, **kwargs: Any) -> int:
    """Return the FLOP of two products of all queries with all keys, even for causal kernels.

    Fewer heads of keys than of queries serve several each.
    """
    batch, heads, queries, width = query.shape
    return int(2 * batch * heads * queries * key.shape[2] * (width + value.shape[3]))


def _attention_backward_flop(
    gradient: Any, query: Any, key: Any, value: Any, *args: Any, **kwargs: Any
) -> int:
    """Return the FLOP of five products, against forward's two, since the scores are recomputed."""
    return _attention_flop(query, key, value) * 5 // 2


def _convolution_backward_flop(gradient: Any, image: Any, weight: Any, *args: Any) -> int:
    """Return forward's FLOP for each of the two requested gradients, also with groups of channels.

    ``args`` are the operator's other arguments: bias, stride, padding, dilation, whether
    transposed, the padding of the output, groups, and which gradients are requested.
    """
    transposed, wanted = args[4], args[7]
    # The weights are used at each place of the output, or of the input where transposed.
    places = image.shape[2:] if transposed else gradient.shape[2:]
    forward = 2 * image.shape[0] * prod(places) * weight.numel()
    return int(forward * (bool(wanted[0]) + bool(wanted[1])))


def _grouped_flop(left: Any, right: Any, *args: Any, **kwargs: Any) -> int:
    """Return 2 m k n; groups divide the rows of a flat (2-D) operand, not of a stacked (3-D) one.

    For stacked times flat operands, groups divide the columns instead.
    """
    spread = left.dim() == 2 or right.dim() == 3
    rows = left.numel() if spread else left.shape[1] * left.shape[2]
    return int(2 * rows * right.shape[-1])


def formulas(torch: Any) -> dict[Any, Callable[..., int]]:
    """Return formulas for the FLOP of operators that torch's counter lacks in some version."""
    aten = torch.ops.aten
    found: dict[Any, Callable[..., int]] = {
        aten._scaled_dot_product_flash_attention: _attention_flop,
        aten._scaled_dot_product_flash_attention_backward: _attention_backward_flop,
        aten.convolution_backward: _convolution_backward_flop,
    }
    if hasattr(aten, "_grouped_mm"):
        found[aten._grouped_mm] = _grouped_flop
    return found
