"""The objective of a search."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from dpsim.base.registry import Registry
from dpsim.base.units import TIME, human
from dpsim.engine import Result

_HOUR = 3600.0
_MILLION = 1e6


@dataclass(frozen=True, slots=True)
class Objective:
    """The quantity to optimise, with a ``title`` for it.

    ``read`` returns its figure from a result, None if there is none. ``higher``: a higher figure is
    better. ``to_target``: the figure is about training to the model's target, and so are the time
    and cost shown with it. ``unit`` is the figure's unit, empty for a cost.
    """

    name: str
    title: str
    read: Callable[[Result], float | None]
    higher: bool = False
    to_target: bool = False
    unit: str = "s"

    def score(self, figure: float) -> float:
        """Return ``figure`` with its sign such that less is better."""
        return -figure if self.higher else figure

    def words(self, result: Result) -> str:
        """Return the title and the figure of a result that has one."""
        figure = self.read(result)
        assert figure is not None
        text = f"{figure:,.4g} {self.unit or self.currency(result)}"
        return f"{self.title} {human(figure, TIME) if self.unit == 's' else text}"

    def gain(self, before: float, after: float) -> float:
        """Return the relative change of the figure, negative for a decrease."""
        return after / before - 1

    def time_s(self, result: Result) -> float | None:
        """Return the seconds to the target, for the total asked for, or for a million samples."""
        if self.to_target:
            return result.time_to_target_s
        if result.total is not None:
            return result.total.time_s
        return _MILLION / result.throughput_samples_per_s

    def cost(self, result: Result) -> float | None:
        """Return the cost of that time: in GPU hours, or in money if there is a price.

        It is the scenario's own price; list prices only count for a total asked for.
        """
        seconds, spending, total = self.time_s(result), result.spending, result.total
        if total is not None and not self.to_target:
            return total.gpu_hours if total.price is None else total.price
        if seconds is None:
            return None
        price = spending.config.price_per_gpu_hour
        return seconds / _HOUR * spending.gpus * (1.0 if price is None else price)

    def currency(self, result: Result) -> str:
        """Return the unit of costs: a currency, or GPU hours."""
        total = result.total
        if total is not None and total.price is not None and not self.to_target:
            return total.currency
        return "GPU hours" if result.cost is None else result.cost.currency

    def span(self, result: Result) -> str:
        """Return the words for what time and cost refer to."""
        if self.to_target:
            return "to the target"
        cost = result.job.scenario.cost
        totals = {"tokens": cost.tokens, "samples": cost.samples, "epochs": cost.epochs}
        of = (f"of {number:,.10g} {what}" for what, number in totals.items() if number is not None)
        return next(of, "of a million samples")


_TO_TARGET = Objective(
    "time-to-target", "time to the target", lambda result: result.time_to_target_s, to_target=True
)

OBJECTIVES: Registry[Objective] = Registry(
    "objective",
    {
        "step-time": Objective("step-time", "step time", lambda result: result.mean_step),
        "throughput": Objective(
            "throughput",
            "throughput",
            lambda result: result.throughput_samples_per_s,
            higher=True,
            unit="samples/s",
        ),
        "time-to-target": _TO_TARGET,
        "cost-to-target": Objective(
            "cost-to-target", "cost to the target", _TO_TARGET.cost, to_target=True, unit=""
        ),
    },
)
