"""Stand-ins for torch operators whose results depend on data, which a trace does not have.

``.item()`` on a mask, ``nonzero`` or an index by a mask returns a guess with which the trace can
continue, and which it records: sizes at their maximum, flags not set, numbers in the middle of 0 to
1. Attention uses the fused kernel of GPUs, and grouped products the only precision that they
support.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from math import prod
from typing import Any


class StandIns:
    """Stand-ins of one trace; ``guessed`` are the operators whose results were guessed."""

    def __init__(self, torch: Any) -> None:
        self._torch = torch
        self.guessed: dict[str, None] = {}
        self._answers: dict[str, Callable[..., Any]] = {
            "aten.rand": self._draw,
            "aten._grouped_mm": self._in_bf16,
            "aten._local_scalar_dense": self._scalar,
            "aten.nonzero": self._nonzero,
            "aten.masked_select": self._selected,
            **dict.fromkeys(
                ("aten.index", "aten.index_put", "aten.index_put_", "aten._index_put_impl_"),
                self._by_mask,
            ),
        }

    def answer(self, func: Any, args: Any, kwargs: Any) -> Any:
        """Return an operator's stand-in result; NotImplemented if torch should compute it."""
        answer = self._answers.get(str(func._overloadpacket))
        return NotImplemented if answer is None else answer(func, args, kwargs)

    def _is_meta(self, value: Any) -> bool:
        return isinstance(value, self._torch.Tensor) and value.device.type == "meta"

    def _draw(self, func: Any, args: Any, kwargs: Any) -> Any:
        """Return 0.5 for random numbers on the host, so that no layer is dropped."""
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
        return self._all_indices(args[0]) if self._is_meta(args[0]) else NotImplemented

    def _selected(self, func: Any, args: Any, kwargs: Any) -> Any:
        if not self._is_meta(args[0]):
            return NotImplemented
        self.guessed.setdefault("masked_select")
        return self._torch.empty(args[0].numel(), dtype=args[0].dtype, device="meta")

    def _all_indices(self, mask: Any) -> Any:
        """Return indices of the nonzero elements, assumed to be all."""
        self.guessed.setdefault("nonzero")
        return self._torch.empty(mask.numel(), mask.dim(), dtype=self._torch.int64, device="meta")

    def _by_mask(self, func: Any, args: Any, kwargs: Any) -> Any:
        """Replace the masks of an index by indices."""
        if not any(self._is_mask(index) for index in args[1]):
            return NotImplemented
        indices: list[Any] = []
        for index in args[1]:
            indices += self._all_indices(index).unbind(1) if self._is_mask(index) else [index]
        return func(args[0], indices, *args[2:], **kwargs)

    def _is_mask(self, index: Any) -> bool:
        return self._is_meta(index) and index.dtype in (self._torch.bool, self._torch.uint8)

    def _in_bf16(self, func: Any, args: Any, kwargs: Any) -> Any:
        """Compute a grouped product in bf16, the only precision that its kernels support."""
        wanted = args[0].dtype
        halves = [
            one.to(self._torch.bfloat16)
            if isinstance(one, self._torch.Tensor) and one.is_floating_point()
            else one
            for one in args
        ]
        return func(*halves, **kwargs).to(wanted)


def fused_attention(torch: Any) -> Any:
    """Return a mode in which attention is one kernel, as on GPUs.

    On the meta device torch would materialise the scores. A mask hardly changes the kernel's
    traffic and is left out, unless it is learned.
    """
    functions = importlib.import_module("torch.nn.functional")
    modes: Any = importlib.import_module("torch.overrides")

    class Fused(modes.TorchFunctionMode):  # type: ignore[misc]
        def __torch_function__(
            self, func: Any, types: Any, args: Any = (), kwargs: Any = None
        ) -> Any:
            kwargs = kwargs or {}
            if func is functions.scaled_dot_product_attention:
                output = _fused_kernel(torch, *args, **kwargs)
                if output is not None:
                    return output
            return func(*args, **kwargs)

    return Fused()


def _fused_kernel(
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
    learned = attn_mask is not None and attn_mask.requires_grad
    if query.dim() != 4 or learned or query.device.type != "meta":
        return None
    scale = more.get("scale")
    if query.shape[3] == value.shape[3]:
        # The GPU's operator, so that its FLOP and traffic are counted.
        flash = torch.ops.aten._scaled_dot_product_flash_attention
        return flash(query, key, value, dropout_p, is_causal, scale=scale)[0]
    if query.shape[1] != value.shape[1]:
        return None
    # This kernel allows values of another width.
    efficient = torch.ops.aten._scaled_dot_product_efficient_attention
    return efficient(query, key, value, None, True, dropout_p, is_causal, scale=scale)[0]


def _attention_flop(query: Any, key: Any, value: Any, *args: Any, **kwargs: Any) -> int:
    """Return the FLOP of two products of all queries with all keys, even for causal kernels."""
    batch, heads, queries, width = query.shape
    return int(2 * batch * heads * queries * key.shape[2] * (width + value.shape[3]))


def _attention_backward_flop(
    gradient: Any, query: Any, key: Any, value: Any, *args: Any, **kwargs: Any
) -> int:
    """Return the FLOP of five products, including the recomputed scores; forward has two."""
    return _attention_flop(query, key, value) * 5 // 2


def _convolution_backward_flop(gradient: Any, image: Any, weight: Any, *args: Any) -> int:
    """Return forward's FLOP for each requested gradient.

    ``args``: bias, stride, padding, dilation, transposed, padding of the output, groups, and which
    gradients are requested.
    """
    transposed, wanted = args[4], args[7]
    # Weights are used at each pixel of the output, or of a transposed convolution's input.
    indices = image.shape[2:] if transposed else gradient.shape[2:]
    forward = 2 * image.shape[0] * prod(indices) * weight.numel()
    return int(forward * (bool(wanted[0]) + bool(wanted[1])))


def _grouped_flop(left: Any, right: Any, *args: Any, **kwargs: Any) -> int:
    """Return 2 m k n. Groups divide the columns if ``left`` is 3-D and ``right`` 2-D, else rows."""
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
