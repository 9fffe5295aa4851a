"""How much machines of one description differ: a bound for predictions from descriptions."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from validate.published.nccl.scores import Score

# For one description and operation: ln seconds by size, then by machine.
_Measured = dict[float, dict[str, list[float]]]


def beside_twins(scores: Sequence[Score]) -> tuple[list[Score], list[Score]]:
    """Return the rows that have twins, and the same rows as predicted by their twins.

    A twin of a row is another machine of the same description with the same operation and size. The
    prediction is the geometric mean over twins, each of which counts once. Properties that the
    model does not read, such as a machine's name, are not part of its description; nor is NCCL's
    version.
    """
    measured: dict[object, _Measured] = defaultdict(lambda: defaultdict(lambda: defaultdict(list)))
    for score in scores:
        of_size = measured[_description(score)][score.nbytes]
        of_size[score.case.machine_name].append(float(np.log(score.measured)))

    rows, twins = [], []
    for score in scores:
        of_size = measured[_description(score)][score.nbytes]
        others = [
            np.mean(logs) for name, logs in of_size.items() if name != score.case.machine_name
        ]
        if others:
            rows.append(score)
            twins.append(replace(score, predicted=float(np.exp(np.mean(others)))))
    return rows, twins


def _description(score: Score) -> object:
    """Return the model's inputs for a row, without its size."""
    case = score.case
    machine = replace(case.machine, gpu="", nccl_version=None, graph=0)
    return machine, case.op, case.element_bytes == 1
