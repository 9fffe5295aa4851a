"""A compiled version of `CriticalLinks.finish` for very many ranks, identical to the last bit."""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpsim.base.arrays import FloatArray
from dpsim.network.rounds.critical_links import CriticalLinks

# The loops' working arrays, one number per segment.
_BUFFERS = ("back", "on", "heard", "after")


class _Rings(ctypes.Structure):
    """The structure `Rings` of ``rings.c``, field by field."""

    _fields_ = (
        *((name, ctypes.c_int64) for name in ("rings", "segments", "longest")),
        *((name, ctypes.c_void_p) for name in ("place", "behind", "ahead")),
        ("step", ctypes.c_int64),
        *((name, ctypes.c_void_p) for name in ("reach", "around", "paced", *_BUFFERS)),
    )


class CompiledRings:
    """The rings of ``links``, laid out for the compiled loops."""

    def __init__(self, loops: ctypes.CDLL, links: CriticalLinks) -> None:
        self._finish = loops["rings_finish"]
        self._finish.restype = None
        self._finish.argtypes = [ctypes.c_void_p] * 3
        rings, segments = links.reach.shape
        longest = len(links.place)
        self._rings = _Rings(rings, segments, longest)
        self._at = ctypes.byref(self._rings)
        self._kept: list[NDArray[Any]] = []  # arrays that the loops hold pointers to

        # -1 is padding of shorter segments.
        place = links.place if links.is_rank is None else np.where(links.is_rank, links.place, -1)
        self._keep("place", place.T.astype(np.int32))
        # A row for each segment, or one for all of them (step 0).
        lost = np.broadcast_arrays(links.behind, links.ahead)
        self._rings.step = longest if lost[0].shape[1] > 1 else 0
        self._keep("behind", lost[0].T)
        self._keep("ahead", lost[1].T)
        for name in ("reach", "around", "paced"):
            self._keep(name, getattr(links, name))
        for name in _BUFFERS:
            self._keep(name, np.empty(rings * segments))

    def _keep(self, name: str, array: NDArray[Any]) -> None:
        kept = np.ascontiguousarray(array)
        self._kept.append(kept)
        setattr(self._rings, name, kept.ctypes.data)

    def finish(self, ready: FloatArray) -> FloatArray:
        ready = np.ascontiguousarray(ready)
        finished = ready.copy()
        self._finish(self._at, ready.ctypes.data, finished.ctypes.data)
        return finished
