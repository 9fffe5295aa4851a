"""A ring all-reduce by dpsim's flows, message by message."""

from __future__ import annotations

import sys

from dpsim.network import named_model
from dpsim.topology import UniformSwitch


def finish(ranks: int, nbytes: int, rate: float, latency: float) -> float:
    """Return the time at which the last rank finishes (s)."""
    return named_model("flows", "ring", UniformSwitch(ranks, rate, latency)).time_together(nbytes)


if __name__ == "__main__":
    print(finish(int(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3]), float(sys.argv[4])))
