"""The number formats in which a step computes, as torch settings."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

import torch

from dpsim.base.errors import UnknownNameError
from validate.ranks.device import DeviceFace

# The format of autocast; None if weights' own format stays.
FORMATS: Mapping[str, Any] = {
    "fp32": None,
    "tf32": None,
    "fp16": torch.float16,
    "bf16": torch.bfloat16,
}


@contextmanager
def computing_in(precision: str, face: DeviceFace) -> Iterator[None]:
    """Compute products in the block in ``precision``, with weights in fp32.

    Raises UnknownNameError.
    """
    with products_in(precision), casting(precision, face):
        yield


def casting(precision: str, face: DeviceFace) -> AbstractContextManager[Any]:
    """Return autocast to fp16 or bf16; for others a null context. Raises UnknownNameError."""
    if precision not in FORMATS:
        raise UnknownNameError("precision", precision, FORMATS)
    chosen = FORMATS[precision]
    if chosen is None:
        return nullcontext()
    cast: AbstractContextManager[Any] = torch.autocast(face.place.type, dtype=chosen)
    return cast


@contextmanager
def products_in(precision: str) -> Iterator[None]:
    """Compute products and convolutions of fp32 numbers in tf32 if requested, backward too.

    It is a setting of the process, which the backward pass uses as well; restored afterwards.
    """
    before = torch.get_float32_matmul_precision(), torch.backends.cudnn.allow_tf32
    torch.set_float32_matmul_precision("high" if precision == "tf32" else "highest")
    torch.backends.cudnn.allow_tf32 = precision == "tf32"
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(before[0])
        torch.backends.cudnn.allow_tf32 = before[1]
