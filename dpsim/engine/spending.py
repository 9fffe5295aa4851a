"""The cost of training: money for GPU hours, and energy.

Every GPU is paid for from the first step to the last, whether it computes or waits. Power is

    pue (GPUs P (busy + (1 - busy) waiting) + nodes P_node),

with P the power of a GPU that computes and ``busy`` the share of a step in which it does (encoding
and decoding included; over different GPUs its mean is weighted by their power). The catalogue's P
is the thermal design power, which a board may draw for long: the resulting energy is an upper
bound.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from dpsim.base.errors import DpsimError
from dpsim.convergence import tasks_of
from dpsim.hardware import CURRENCY, USER_GIVEN, Gpu, Sourced, list_price
from dpsim.scenario import CostConfig, Scenario

_HOUR = 3600.0
_KWH = 3.6e6


@dataclass(frozen=True, slots=True)
class Cost:
    """Money in ``currency``: per hour of all GPUs, step, million samples, and to the target.

    For text also per million tokens.
    """

    price_per_gpu_hour: float
    currency: str
    per_hour: float
    per_step: float
    per_million_samples: float
    per_million_tokens: float | None
    to_target: float | None


@dataclass(frozen=True, slots=True)
class Energy:
    """Power and energy of all machines.

    ``power_W`` is the average over a step, ``gpu_power_W`` the power of one GPU that computes, from
    ``source``.
    """

    power_W: float
    gpu_power_W: float
    busy_share: float
    per_step_J: float
    per_sample_J: float
    to_target_J: float | None
    source: str


@dataclass(frozen=True, slots=True)
class Total:
    """Time, price and energy of training on ``samples``, time lost to crashes included.

    ``price`` is in ``currency``, None if some GPU has no price; ``price_source`` is the source of
    ``price_per_gpu_hour``. ``energy_kwh`` is None if a GPU's power is not known.
    """

    samples: float
    time_s: float
    gpu_hours: float
    price: float | None
    energy_kwh: float | None
    currency: str
    price_per_gpu_hour: float | None
    price_source: str | None


@dataclass(frozen=True, slots=True)
class Spending:
    """The running costs of the scenario's cluster.

    ``gpu_watts``: power of all its GPUs at work, None if some GPU's is not known. ``hourly``: price
    of an hour of all GPUs in ``currency``, None if some GPU has neither a stated nor a list price.
    """

    config: CostConfig
    gpus: int
    nodes: int
    gpu_watts: float | None
    source: str
    hourly: float | None
    currency: str
    price_source: str | None

    def price(self, seconds: float) -> float | None:
        """Return the price of ``seconds`` on all GPUs; None without a price."""
        return None if self.hourly is None else self.hourly * seconds / _HOUR

    def total(self, samples: float, *, time_s: float, energy: Energy | None) -> Total:
        """Return the total of training on ``samples``, which takes ``time_s``."""
        return Total(
            samples=samples,
            time_s=time_s,
            gpu_hours=self.gpus * time_s / _HOUR,
            price=self.price(time_s),
            energy_kwh=None if energy is None else energy.power_W * time_s / _KWH,
            currency=self.currency,
            price_per_gpu_hour=None if self.hourly is None else self.hourly / self.gpus,
            price_source=self.price_source,
        )

    def cost(
        self,
        price: float,
        *,
        step_s: float,
        samples_per_s: float,
        tokens_per_s: float | None,
        to_target_s: float | None,
    ) -> Cost:
        """Return the cost of steps of ``step_s`` seconds at ``price`` per GPU and hour.

        ``to_target_s`` is the time to the target, None if it is not known.
        """
        hourly = price * self.gpus
        return Cost(
            price_per_gpu_hour=price,
            currency=self.config.currency,
            per_hour=hourly,
            per_step=hourly * step_s / _HOUR,
            per_million_samples=hourly / _HOUR / samples_per_s * 1e6,
            per_million_tokens=None
            if tokens_per_s is None
            else hourly / _HOUR / tokens_per_s * 1e6,
            to_target=None if to_target_s is None else hourly * to_target_s / _HOUR,
        )

    def energy(
        self, *, step_s: float, busy_share: float, samples_per_s: float, to_target_s: float | None
    ) -> Energy | None:
        """Return the energy of steps in which GPUs compute for the share ``busy_share``.

        None if a GPU's power is not known.
        """
        if self.gpu_watts is None:
            return None
        at_work = busy_share + (1 - busy_share) * self.config.waiting_power
        power = self.config.pue * (
            self.gpu_watts * at_work + self.nodes * self.config.power_per_node
        )
        return Energy(
            power_W=power,
            gpu_power_W=self.gpu_watts / self.gpus,
            busy_share=busy_share,
            per_step_J=power * step_s,
            per_sample_J=power / samples_per_s,
            to_target_J=None if to_target_s is None else power * to_target_s,
            source=self.source,
        )


def spending(scenario: Scenario) -> Spending:
    """Return the spending of ``scenario``; list prices and catalogue power by default."""
    config = scenario.cost
    watts, source = _sum_over_gpus(scenario, config.power_per_gpu, lambda gpu: gpu.power)
    hourly, price_source = _sum_over_gpus(scenario, config.price_per_gpu_hour, list_price)
    return Spending(
        config=config,
        gpus=scenario.cluster.ranks,
        nodes=sum(part.nodes for part in scenario.cluster.parts),
        gpu_watts=watts,
        source=source if source == USER_GIVEN else f"thermal design power: {source}",
        hourly=hourly,
        currency=CURRENCY if config.price_per_gpu_hour is None else config.currency,
        price_source=None if hourly is None else price_source,
    )


def _sum_over_gpus(
    scenario: Scenario, given: float | None, figure_of: Callable[[Gpu], Sourced[float] | None]
) -> tuple[float | None, str]:
    """Return a figure of all GPUs together, None if it is not known of one, and its source."""
    parts = scenario.cluster.parts
    if given is not None:
        return scenario.cluster.ranks * given, USER_GIVEN
    figures = [figure_of(part.accelerator) for part in parts]
    known = [figure for figure in figures if figure is not None]
    # Each source once, however many groups of nodes have that GPU.
    source = "; ".join(dict.fromkeys(figure.source for figure in known))
    # A sum without one of the GPUs would look like a saving.
    if len(known) < len(figures):
        return None, source
    return sum(part.ranks * each.value for part, each in zip(parts, known, strict=True)), source


def samples_to_pay(scenario: Scenario, tokens_of_sample: int | None) -> float | None:
    """Return the samples for which ``scenario`` asks the total; None if it asks for none.

    Raises DpsimError for tokens of a model without any, and for epochs without a data set.
    """
    cost = scenario.cost
    if cost.tokens is not None:
        if not tokens_of_sample:
            raise DpsimError(
                "cost.tokens: must be of a model that reads text, but this model has no tokens "
                "(state cost.samples, or --samples)"
            )
        return cost.tokens / tokens_of_sample
    if cost.epochs is not None:
        return cost.epochs * _data_set(scenario)
    return cost.samples


def _data_set(scenario: Scenario) -> int:
    """Return the samples of the scenario's data set, or else of the model's task."""
    model, dataset = scenario.workload.model, scenario.workload.dataset
    if dataset is not None:
        return dataset.samples
    known = (
        [task.samples for task in tasks_of(model) if task.samples] if isinstance(model, str) else []
    )
    if not known:
        raise DpsimError(
            "cost.epochs: must be of a data set, but neither workload.dataset.samples nor the "
            "model says how large it is"
        )
    return known[0]
