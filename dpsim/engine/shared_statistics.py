"""The time that workers take to share the statistics of batch normalisation.

In the forward pass each layer all-reduces, by channel, the sum and the sum of squares of its
inputs, and their count; in the backward pass the two sums that its gradient needs (Ioffe and
Szegedy 2015). The pass waits for the result, so the whole time is exposed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from dpsim.base.errors import DpsimError
from dpsim.collectives import Groups

if TYPE_CHECKING:
    from dpsim.base.arrays import FloatArray
    from dpsim.scenario import Scenario
    from dpsim.strategy.aggregation import Setting
    from dpsim.workload import Model

_VALUE = 4  # bytes: statistics are fp32 in any precision


def statistics_waits(scenario: Scenario, model: Model, setting: Setting) -> FloatArray:
    """Return the seconds that each layer waits in a pass, the same forward and backward.

    Workers of a group are assumed to reach a layer together. Raises DpsimError if groups do not
    divide the workers, or workers go through their layers at different times.
    """
    group, ranks = scenario.workload.sync_batch_norm, setting.cluster.ranks
    # A layer without weights has an unknown number of channels; few bytes cost only latency.
    channels = [(layer.parameters or (1,))[0] if layer.over_batch else 0 for layer in model.layers]
    if not any(channels):
        _refuse(f"must be 1 for {model.name}, which has no batch normalisation", group)
    if ranks % group:
        _refuse(f"must divide the {ranks} GPUs", group)
    if not scenario.strategy.sync.barrier or not scenario.strategy.aggregation.one_version:
        _refuse(
            f"must be 1 under {scenario.strategy.sync.kind}, whose workers do not keep step", group
        )
    if scenario.cell > 1 or scenario.workload.learners_per_gpu > 1:
        _refuse("must be 1 if each GPU holds a part of a model, or several models", group)
    # The gradients' library; with servers, which use none, the one of an all-reduce.
    library = setting.library
    if not setting.libraries:
        library, _ = setting.library_for("auto", "auto", groups=Groups(group))
    algorithm = "ring" if library == "ideal" else "auto"
    model_of_group = setting.timed(algorithm, library=library, groups=Groups(group))
    seconds = {
        number: model_of_group.seconds_from_common_start(_VALUE * (2 * number + 1))
        for number in set(channels) - {0}
    }
    return np.array([seconds.get(number, 0.0) for number in channels])


def _refuse(rule: str, group: int) -> None:
    raise DpsimError(f"workload.sync_batch_norm: {rule}, but got {group}")
