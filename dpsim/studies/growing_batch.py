"""Growing the batch during training instead of decaying the learning rate.

Both reach the same test accuracy after the same number of epochs (Smith, Kindermans, Ying and Le,
"Don't decay the learning rate, increase the batch size", ICLR 2018), but larger batches need fewer
updates, and so less communication. The batch grows when the 90-epoch ImageNet schedule of He et al.
and Goyal et al. decays the rate: after 30, 60 and 80 epochs.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from dpsim.base.errors import DpsimError
from dpsim.engine import Result, simulate
from dpsim.scenario import Scenario

EPOCHS = (30, 30, 20, 10)


@dataclass(frozen=True, slots=True)
class Stage:
    """Epochs with one global batch: its updates, and their time (s)."""

    epochs: int
    global_batch: int
    updates: float
    seconds: float


@dataclass(frozen=True, slots=True)
class Growth:
    """The same epochs with a constant and with a growing batch."""

    constant: tuple[Stage, ...]
    growing: tuple[Stage, ...]

    @property
    def seconds(self) -> tuple[float, float]:
        """The duration of both trainings (s), constant first."""
        return _total(self.constant), _total(self.growing)


def growing_batch(
    scenario: Scenario,
    samples: int,
    factor: int,
    epochs: tuple[int, ...] = EPOCHS,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> Growth:
    """Simulate training over ``samples`` per epoch; each stage multiplies the batch by ``factor``.

    A batch that does not fit in memory is accumulated over several passes. Raises DpsimError if
    that does not fit either.
    """
    if factor < 1:
        raise DpsimError(f"factor must be at least 1, but got {factor}")
    results: list[Result] = []
    for stage in range(len(epochs)):
        progress(stage, len(epochs))
        results.append(_at(scenario, factor**stage))
    first = results[0]
    return Growth(
        tuple(_stage(count, samples, first) for count in epochs),
        tuple(_stage(count, samples, each) for count, each in zip(epochs, results, strict=True)),
    )


def _at(scenario: Scenario, times: int) -> Result:
    """Simulate the scenario with ``times`` its batch, in one pass or accumulated over several."""
    workload = scenario.workload
    larger = workload.model_copy(update={"batch_per_gpu": times * workload.batch_per_gpu})
    try:
        return simulate(scenario.model_copy(update={"workload": larger}))
    except DpsimError:
        # More passes of the old batch need no more memory.
        passes = times * workload.gradient_accumulation
        more = workload.model_copy(update={"gradient_accumulation": passes})
        return simulate(scenario.model_copy(update={"workload": more}))


def _stage(epochs: int, samples: int, result: Result) -> Stage:
    batch = result.workers * result.batch_per_worker
    seconds = epochs * samples / result.throughput_samples_per_s
    return Stage(epochs, batch, epochs * samples / batch, seconds)


def _total(stages: tuple[Stage, ...]) -> float:
    return sum(stage.seconds for stage in stages)
