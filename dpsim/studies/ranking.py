"""The figures by which variants can be ranked."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from dpsim.base.registry import Registry
from dpsim.engine import Result


@dataclass(frozen=True, slots=True)
class Ranking:
    """A figure by which variants are ranked, smallest first.

    ``read`` returns the figure of a result, None if it is unknown. ``of_time``: the figure is
    proportional to the step time, and so are its model errors. ``of_money``: the figure is a price,
    so it can only be compared within one currency.
    """

    name: str
    title: str
    read: Callable[[Result], float | None]
    of_time: bool = True
    of_money: bool = False

    @property
    def is_time(self) -> bool:
        """Whether the figure is the time of a step or a sample, which every table has."""
        return self.name in ("step-time", "sample-time")

    @property
    def of_samples(self) -> bool:
        """Whether the figure counts samples equally, although batches differ in those they need."""
        return self.of_time and self.name != "time-to-target"


RANKINGS: Registry[Ranking] = Registry(
    "ranking",
    {
        each.name: each
        for each in (
            Ranking(
                "sample-time", "time per sample", lambda result: 1 / result.throughput_samples_per_s
            ),
            Ranking("step-time", "step time", lambda result: result.step_time_s["mean"]),
            Ranking("time-to-target", "time to the target", lambda result: result.time_to_target_s),
            # Every price is proportional to it.
            Ranking(
                "gpu-time",
                "GPU time per sample",
                lambda result: result.workers / result.throughput_samples_per_s,
            ),
            Ranking(
                "price",
                "price per sample",
                lambda result: result.price_per_million_samples,
                of_money=True,
            ),
            Ranking(
                "memory",
                "memory on a GPU",
                lambda result: None if result.memory is None else result.memory.held.total,
                of_time=False,
            ),
            Ranking(
                "bytes",
                "bytes sent per sample",
                lambda result: result.bytes_per_sample,
                of_time=False,
            ),
        )
    },
)
