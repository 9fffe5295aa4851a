"""Copies between a GPU and its host.

Latency and rate of copies from and to pinned memory, T = latency + S / rate.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from dpsim.base.errors import DpsimError
from dpsim.hardware import Parameter
from validate.calibrate.line import fit_lines, parameter
from validate.microbench.run_file import RunFile

_LEAST_SIZES = 3


class Copies(NamedTuple):
    """Copies of ``nbytes``: the seconds of each repetition."""

    nbytes: int
    times_s: tuple[float, ...]


def copies_of(run: RunFile) -> list[Copies]:
    """Return the copies of one rank alone from or to pinned memory, in both directions."""
    # Ranks that copy at once share the host's memory; pageable memory is copied twice.
    one_rank = (row for row in run.of("copies") if row.get("at_once", 1) == 1)
    rows = (row for row in one_rank if row["memory"] == "pinned" and row["bytes"])
    return [Copies(row["bytes"], tuple(row["times_s"])) for row in rows]


def fit_copies(copies: Sequence[Copies]) -> dict[str, Parameter]:
    """Fit ``copy_latency`` and ``copy_rate``.

    Raises DpsimError for fewer than three sizes.
    """
    sizes = {one.nbytes for one in copies}
    if len(sizes) < _LEAST_SIZES:
        raise DpsimError(
            f"runs must have copies of at least {_LEAST_SIZES} sizes, but have {len(sizes)}"
        )
    nbytes = np.array([float(one.nbytes) for one in copies])
    lines = fit_lines(nbytes, [one.times_s for one in copies])
    return {
        "copy_latency": parameter(lines[:, 0], "s"),
        "copy_rate": parameter(1 / lines[:, 1], "B/s"),
    }
