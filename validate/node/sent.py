"""Models that send weights but hardly compute: one embedding row per step."""

from __future__ import annotations

from functools import partial

from torch import nn

_WIDTH = 64


def _of(nbytes: int) -> nn.Module:
    return nn.Sequential(nn.Embedding(nbytes // 4 // _WIDTH, _WIDTH))


# By the scenarios' names: their bytes in fp32.
kib64, kib256, mib1, mib4 = (partial(_of, 2**power) for power in (16, 18, 20, 22))
SIZES = {"kib64": 2**16, "kib256": 2**18, "mib1": 2**20, "mib4": 2**22}
