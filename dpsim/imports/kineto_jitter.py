"""The disturbance in traces of all ranks: a fit, or a histogram for few steps."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np

from dpsim.disturbance import STEPS_TO_FIT, fit_jitter
from dpsim.imports.kineto_ranks import RankTraces

_Table = dict[str, list[float]]


def disturbance_of(traces: RankTraces) -> dict[str, Any]:
    """Return the ``disturbance`` block of a scenario: jitter, and permanently slow ranks.

    From 20 steps on the jitter is fitted, with parts of the job, of nodes and of workers; with
    fewer it is a histogram. A single step shows slow ranks, but no jitter.
    """
    # The fit counts columns, and some ranks may have no trace.
    numbers = [each.rank for each in traces.ranks]
    block = fit_jitter(traces.compute, traces.nodes).block(numbers)
    if len(traces.steps) >= STEPS_TO_FIT:
        return block
    table = histogram_of(traces)
    jitter = {"jitter": {"kind": "histogram", "table": table}} if table is not None else {}
    slow = {"slow": block["slow"]} if "slow" in block else {}
    return {**jitter, **slow}


def histogram_of(traces: RankTraces) -> _Table | None:
    """Return the factors of all ranks' compute times with their counts; None for a single step."""
    steps = len(traces.steps)
    if steps < 2:
        return None
    logs = np.log(traces.compute / traces.compute.mean(axis=0))
    # Around the mean of the same n steps the variance is (n - 1) / n of that around the true mean.
    factors = np.exp(logs * np.sqrt(steps / (steps - 1)))
    counts = Counter(round(float(factor), 4) for factor in factors.ravel())
    found = sorted((value, count) for value, count in counts.items() if value > 0)
    return {
        "values": [value for value, _ in found],
        "weights": [float(count) for _, count in found],
    }
