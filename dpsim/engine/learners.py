"""Several learners on one GPU: their step times, and the best number of them."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, partial

from dpsim.engine.gpu_times import constants_on, learner_times
from dpsim.engine.memory import MemoryUse, smallest_gpu
from dpsim.hardware import Gpu
from dpsim.scenario import Scenario
from dpsim.workload import (
    LayerTimes,
    LearnersRow,
    Model,
    averaging,
    learners_table,
    measured_time,
    shared_times,
    stretch,
)

# `learner_times` of one model and GPU, by batch and number of learners that update.
TimesOf = Callable[..., LayerTimes]


def times_with_learners(
    scenario: Scenario, model: Model, gpu: Gpu, times: TimesOf, batch: int, learners: int
) -> LayerTimes:
    """Return the times of a step in which ``learners`` of ``batch`` samples each share ``gpu``.

    With a measured curve, passes take its time for all samples in flight, plus recomputation in the
    computed proportion. Without one, their times are computed.
    """
    one_learner, points = times(batch, learners), scenario.workload.utilisation
    if learners == 1 and not points:
        return one_learner

    def passes(samples: int, *, recompute: bool = True) -> float:
        return times(samples, 1, recompute=recompute).one_pass

    if points:
        kept = passes(batch, recompute=False)
        factor = measured_time(points)(learners * batch) / kept
    else:
        factor = stretch(passes, batch, learners)
    rate = gpu.memory_bandwidth.value * constants_on(scenario, model, gpu).memory
    return shared_times(one_learner, factor, averaging(model, learners, rate))


def learners_by_batch(scenario: Scenario, use: MemoryUse) -> tuple[LearnersRow, ...]:
    """Return the best number of learners for several batches, on the GPU with the least memory.

    The batches are the scenario's and the powers of two below it. There are no rows if the model
    states no activations, since it is then unknown how many learners fit.
    """
    if use.is_partial:
        return ()
    gpu, batch = smallest_gpu(scenario), scenario.workload.batch_per_gpu
    times = cache(partial(learner_times, scenario, use.model, gpu))

    def step(samples: int, learners: int) -> float:  # a pass, with its share of the update
        whole = times_with_learners(scenario, use.model, gpu, times, samples, learners).step
        return whole / scenario.workload.gradient_accumulation

    powers = [2**power for power in range(batch.bit_length()) if 2**power < batch]
    return learners_table(step, use.most_learners, [*powers, batch])
