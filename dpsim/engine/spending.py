"""What training costs: money for GPU hours, and energy.

Every GPU is paid for from the first step to the last, whether it computes or waits. Power is

    pue (GPUs P (busy + (1 - busy) waiting) + nodes P_node),

with P the power of a GPU that computes and ``busy`` the share of a step in which it does (encoding
and decoding included). The catalogue's P is the thermal design power, what a board may draw for
long: the energy it gives is an upper bound.
"""

from __future__ import annotations

from dataclasses import dataclass

from dpsim.hardware import GIVEN
from dpsim.scenario import CostConfig, Scenario

_HOUR = 3600.0


@dataclass(frozen=True, slots=True)
class Cost:
    """Money in ``currency``: for an hour of all GPUs, a step, a million samples, and the target.

    Of text also for a million tokens.
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

    ``power_W`` is their average over a step, ``gpu_power_W`` of one GPU that computes, from
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
class Spending:
    """What a second of the scenario's cluster costs.

    ``gpu_watts``: of all its GPUs at work, None where some GPU's is not known.
    """

    config: CostConfig
    gpus: int
    nodes: int
    gpu_watts: float | None
    source: str

    def cost(
        self,
        price: float,
        *,
        step_s: float,
        samples_per_s: float,
        tokens_per_s: float | None,
        to_target_s: float | None,
    ) -> Cost:
        """What steps of ``step_s`` seconds cost, at so much for each GPU and hour.

        ``to_target_s`` is how long it is to the target, None where that is not known.
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
        """What steps draw with GPUs that compute for ``busy_share`` of them.

        None where a GPU's power is not known.
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
    """The spending of ``scenario``: the catalogue's power where it gives none."""
    config, parts = scenario.cost, scenario.cluster.parts
    gpus, nodes = scenario.cluster.ranks, sum(part.nodes for part in parts)
    if config.power_per_gpu is not None:
        return Spending(config, gpus, nodes, gpus * config.power_per_gpu, GIVEN)
    powers = [part.accelerator.power for part in parts]
    known = [power for power in powers if power is not None]
    # Each source once, however many groups of nodes have that GPU.
    source = "thermal design power: " + "; ".join(dict.fromkeys(power.source for power in known))
    # A sum without one of the GPUs would look like a saving.
    if len(known) < len(powers):
        return Spending(config, gpus, nodes, None, source)
    watts = sum(part.ranks * power.value for part, power in zip(parts, known, strict=True))
    return Spending(config, gpus, nodes, watts, source)
