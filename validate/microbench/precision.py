"""The number formats that a step computes in, as torch is told of them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

import torch

from dpsim.base.errors import UnknownNameError
from validate.ranks.device import DeviceFace

# What autocast computes in; None where weights' own format stays.
FORMATS: Mapping[str, Any] = {
    "fp32": None,
    "tf32": None,
    "fp16": torch.float16,
    "bf16": torch.bfloat16,
}


@contextmanager
def computing_in(precision: str, face: DeviceFace) -> Iterator[None]:
    """Products in the block are those of ``precision``, with weights in fp32.

    Raises UnknownNameError.
    """
    with products_in(precision), casting(precision, face):
        yield


def casting(precision: str, face: DeviceFace) -> AbstractContextManager[Any]:
    """Autocast to fp16 or bf16; nothing for the others. Raises UnknownNameError."""
    if precision not in FORMATS:
        raise UnknownNameError("precision", precision, FORMATS)
    chosen = FORMATS[precision]
    if chosen is None:
        return nullcontext()
    cast: AbstractContextManager[Any] = torch.autocast(face.place.type, dtype=chosen)
    return cast


@contextmanager
def products_in(precision: str) -> Iterator[None]:
    """Products and convolutions of fp32 numbers in tf32 where asked, backward too; then as before.

    It is a setting of the process, which the backward pass obeys as well.
    """
    before = torch.get_float32_matmul_precision(), torch.backends.cudnn.allow_tf32
    torch.set_float32_matmul_precision("high" if precision == "tf32" else "highest")
    torch.backends.cudnn.allow_tf32 = precision == "tf32"
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(before[0])
        torch.backends.cudnn.allow_tf32 = before[1]
