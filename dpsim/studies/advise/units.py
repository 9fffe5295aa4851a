"""Choose units, prefetching and resharding for a step of fully sharded data parallelism.

A unit's weights are gathered before its forward pass, and again before its backward pass if they
were freed, ``ahead`` units early; its gradients are scattered after backward. In the forward pass
the host always launches the next unit's gather early. Computing and communication are two streams,
each in order.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product

from dpsim.studies.advise.buckets import MIB
from dpsim.studies.advise.line import Line

_SIZES = (16, 32, 64, 100, 128, 256, 512, 1024, 2048)  # MiB of gathered weights
_PREFETCHES = (1, 0, 2)  # torch's default first, because it wins among equal choices
_EQUAL_WITHIN = 1e-3  # share of the step; closer choices are equal


@dataclass(frozen=True, slots=True)
class Sharding:
    """A sharding: ``size`` bytes per unit, units prefetched, whether weights are freed."""

    size: float
    ahead: int
    reshard: bool


@dataclass(frozen=True, slots=True)
class Unit:
    """A unit's computing times (s) and the bytes of its weights and gradients."""

    forward: float
    backward: float
    weights: float
    gradients: float


@dataclass(frozen=True, slots=True)
class Passes:
    """The layers of a step, each as a unit, and the times of gathering and scattering."""

    layers: tuple[Unit, ...]
    gather: Line
    scatter: Line

    def seconds(self, sharding: Sharding) -> float:
        """Return the time from the start of forward to the end of both streams, in s."""
        units = list(group_layers(self.layers, sharding.size))
        count = len(units)
        turns = [*range(count), *reversed(range(count))]
        # Units compute in these turns: all forward, then all backward.
        gathers = turns if sharding.reshard else turns[:count]
        computed = free = 0.0
        gathered: list[float] = []  # when each gather has ended
        for turn, index in enumerate(turns):
            ahead = sharding.ahead if turn >= count else max(sharding.ahead, 1)
            launched = min(turn + ahead + 1, len(gathers))
            for each in gathers[len(gathered) : launched]:
                # A gather is launched after the previous unit has computed.
                free = max(free, computed) + self.gather.seconds(units[each].weights)
                gathered.append(free)
            if turn < len(gathers):
                computed = max(computed, gathered[turn])

            if turn < count:
                computed += units[index].forward
                continue
            computed += units[index].backward
            free = max(free, computed) + self.scatter.seconds(units[index].gradients)
        return max(computed, free)

    def best(self, used: Sharding) -> Sharding:
        """Return the fastest choice; of equal ones, that with least changes and memory."""
        sizes = (used.size, *(float(size) * MIB for size in self._sizes()))
        choices = [
            used,
            *(Sharding(*each) for each in product(sizes, _PREFETCHES, (True, False))),
        ]
        # `used` is also timed by the model, so that the model's errors cancel between choices.
        seconds = {choice: self.seconds(choice) for choice in choices}
        least = min(seconds.values()) * (1 + _EQUAL_WITHIN)
        equal = [choice for choice, taken in seconds.items() if taken <= least]
        return min(
            equal,
            key=lambda choice: (
                choice != used,
                not choice.reshard,
                choice.size != used.size,
                choice.size,
            ),
        )

    def _sizes(self) -> Iterator[int]:
        """Yield the sizes, except those far below all gathers, where the fit is unreliable."""
        yield from (size for size in _SIZES if size * MIB >= self.gather.smallest / 2)


def group_layers(layers: Sequence[Unit], size: float) -> Iterator[Unit]:
    """Group consecutive layers into units of at least ``size`` bytes of weights."""
    parts: list[Unit] = []
    for index, layer in enumerate(layers, 1):
        parts.append(layer)
        # The last layers are a unit of any size.
        if sum(part.weights for part in parts) < size and index < len(layers):
            continue
        yield Unit(
            sum(part.forward for part in parts),
            sum(part.backward for part in parts),
            sum(part.weights for part in parts),
            sum(part.gradients for part in parts),
        )
        parts = []


def code(sharding: Sharding, width: float) -> str:
    """Return the torch code for a sharding; ``width`` is the bytes of a gathered weight."""
    elements = max(1, round(sharding.size / width))
    strategy = "FULL_SHARD" if sharding.reshard else "SHARD_GRAD_OP"
    prefetch = "BackwardPrefetch.BACKWARD_PRE" if sharding.ahead else "None"
    return (
        "model = FullyShardedDataParallel(model, "
        "auto_wrap_policy=partial(size_based_auto_wrap_policy, "
        f"min_num_params={elements}), sharding_strategy=ShardingStrategy.{strategy}, "
        f"backward_prefetch={prefetch}, forward_prefetch={sharding.ahead > 1})"
    )
