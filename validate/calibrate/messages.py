"""Messages between two hosts: the share of its rate that each direction keeps if both are used.

This duplex factor is fitted to the ratio of seconds per byte, both ways over one way, of messages
from `LARGE` bytes on: in the ratio, other costs of messages and the free bytes of limiters cancel.
Intervals come from fits to repetitions drawn with replacement.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from dpsim.base.arrays import FloatArray
from dpsim.base.errors import DpsimError
from dpsim.collectives import algorithm
from dpsim.engine import transport_costs
from dpsim.hardware import Parameter, Transport
from dpsim.network import RoundsModel, transport_model
from dpsim.topology import TestbedConfig, build_cluster, cluster_over_transport
from validate.calibrate.fit import LARGE
from validate.calibrate.line import bootstrap_medians, parameter
from validate.microbench.run_file import RunFile

_PATTERNS = {"ping-pong": False, "exchange": True}  # both ways at once?
# Algorithm and operation of one way and of both, and the size of the vector in messages.
_SCHEDULES = {
    False: ("tree", "broadcast", 1),
    True: ("pairwise", "all-to-all", 2),
}
_OUTLIER_ERROR = 0.02  # the relative error above which a row has less weight
# From two directions that share one rate to two that have it each.
_FACTORS = np.linspace(0.5, 1, 501)
_FEW_FACTORS = np.linspace(0.5, 1, 11)


@dataclass(frozen=True, slots=True)
class Messages:
    """Messages of ``nbytes`` between two hosts, one way or both ways at once: seconds of each."""

    testbed: TestbedConfig
    nbytes: int
    both_ways: bool
    times_s: tuple[float, ...]


def messages_of(run: RunFile, testbed: TestbedConfig) -> list[Messages]:
    """Return the point-to-point rows of a run on ``testbed``, each with its two hosts' testbed."""
    rows = [row for row in run.of("point-to-point") if row["pattern"] in _PATTERNS]
    return [
        Messages(
            _pair(testbed, *row["pair"]),
            row["bytes"],
            _PATTERNS[row["pattern"]],
            tuple(row["times_s"]),
        )
        for row in rows
    ]


def predicted_message_s(one: Messages, transport: Transport) -> float:
    """Return the predicted seconds until both hosts have received their messages."""
    cluster = build_cluster(cluster_over_transport(one.testbed.cluster(), transport))
    name, operation, times = _SCHEDULES[one.both_ways]
    model = transport_model(name, cluster, transport, operation=operation)
    if model is None:
        schedule = algorithm(name, operation).schedule(2)
        model = RoundsModel(schedule, cluster, transport_costs(transport, 0.0))
    return model.seconds_from_common_start(one.nbytes * times)


def fit_duplex(messages: Sequence[Messages], transport: Transport) -> Parameter:
    """Fit the duplex factor to ``messages``, beside ``transport``.

    Raises DpsimError for fewer than two sizes of large messages that went both ways.
    """
    pairs = _both(messages)
    if not pairs:
        raise DpsimError(
            f"runs must have messages one way and both ways of two sizes from {LARGE // 1024} KiB "
            "on, but have not"
        )
    # Predictions are expensive and smooth in the factor, so interpolate between a few.
    predicted = np.array(
        [np.interp(_FACTORS, _FEW_FACTORS, _predicted_ratios(*pair, transport)) for pair in pairs]
    )
    predictions = []

    # The measured medians come first, so that the first factor found is the value.
    for times in bootstrap_medians([one.times_s for pair in pairs for way in pair for one in way]):
        # (testbeds, factors): all factors are compared at once.
        off = predicted - _ratios(pairs, times)[:, None]
        costs = np.sqrt(1 + (off / _OUTLIER_ERROR) ** 2) - 1  # soft_l1
        predictions.append(_FACTORS[costs.sum(axis=0).argmin()])
    return parameter(np.array(predictions), "1")


def _both(messages: Sequence[Messages]) -> list[tuple[list[Messages], list[Messages]]]:
    """Return the large messages one way and both ways of each testbed with at least two sizes."""
    pairs = []
    for testbed in dict.fromkeys(one.testbed for one in messages):
        large = [one for one in messages if one.testbed == testbed and one.nbytes >= LARGE]
        one_way = [one for one in large if not one.both_ways]
        both_ways = [one for one in large if one.both_ways]
        # The ratio compares slopes, for which each way needs at least two sizes.
        sizes = [{one.nbytes for one in way} for way in (one_way, both_ways)]
        if all(len(each) > 1 for each in sizes):
            pairs.append((one_way, both_ways))
    return pairs


def _predicted_ratios(
    one_way: Sequence[Messages], both: Sequence[Messages], transport: Transport
) -> list[float]:
    """Return ln of predicted s/byte, both ways over one way, for each of `_FEW_FACTORS`."""
    one_way_slope = _predicted_slope(one_way, transport)
    ratios = []
    for duplex in _FEW_FACTORS.tolist():
        tried = transport.model_copy(update={"duplex": duplex})
        ratios.append(float(np.log(_predicted_slope(both, tried) / one_way_slope)))
    return ratios


def _predicted_slope(messages: Sequence[Messages], transport: Transport) -> float:
    return _slope(messages, np.array([predicted_message_s(one, transport) for one in messages]))


def _ratios(
    pairs: Sequence[tuple[list[Messages], list[Messages]]], times: FloatArray
) -> FloatArray:
    """Return the measured ratios of each testbed; ``times`` are those of all messages in order."""
    ratios = []
    first = 0
    for pair in pairs:
        slopes = []
        for way in pair:
            slopes.append(_slope(way, times[first : first + len(way)]))
            first += len(way)
        # The ratio is that of both ways to one way, in the order of `_both`.
        ratios.append(np.log(slopes[1] / slopes[0]))
    return np.array(ratios)


def _slope(messages: Sequence[Messages], seconds: FloatArray) -> float:
    """Return the seconds per byte: the line with the least relative errors."""
    return float(np.polyfit([float(one.nbytes) for one in messages], seconds, 1, w=1 / seconds)[0])


def message_errors(messages: Sequence[Messages], transport: Transport) -> list[float]:
    """Return the relative error of ``transport`` for each message."""
    errors = []
    for one in messages:
        measured = float(np.median(one.times_s))
        errors.append(predicted_message_s(one, transport) / measured - 1)
    return errors


def _pair(testbed: TestbedConfig, first: int, second: int) -> TestbedConfig:
    """Return a testbed of the two hosts, with the uplink between them if their racks differ."""
    rack = {host: number for number, hosts in enumerate(testbed.switches) for host in hosts}
    racks = None
    if testbed.racks and rack[first] != rack[second]:
        racks = testbed.racks.model_copy(update={"racks": ((0,), (1,))})
    rates = testbed.rates[first], testbed.rates[second]
    return testbed.model_copy(update={"hosts": 2, "rate": rates, "racks": racks})
