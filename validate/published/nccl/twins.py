"""How far machines of one description differ: no prediction from descriptions can do better."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from validate.published.nccl.scores import Score

# Of one description and operation: ln seconds by size, then by machine.
_Measured = dict[float, dict[str, list[float]]]


def beside_twins(scores: Sequence[Score]) -> tuple[list[Score], list[Score]]:
    """The rows that other machines of the same description have too, and these by theirs alone.

    A row's prediction is then the geometric mean over those machines, each of which counts once.
    What the model does not read of a machine, such as its name, is no part of its description; nor
    is NCCL's version.
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
    """What the model knows of a row but its size."""
    case = score.case
    machine = replace(case.machine, gpu="", nccl_version=None, graph=0)
    return machine, case.op, case.element_bytes == 1
