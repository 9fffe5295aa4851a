"""TCP over delay: rates of held-out links, and times of held-out transfers.

Between regions the rate is a window over the round trip, or the port's rate if that is less. Where
delay was added to a fast link, transfers also take an extra time that does not depend on their
size: the window has to grow to rate times delay. The extra time is proportional to the delay, less
the time of the first window. Tables: BinhangYuan/tc_cluster_setting, results/p2p.md.
"""

from __future__ import annotations

import numpy as np
from packaged_columns import packaged_table

from dpsim.base.arrays import FloatArray

RATES = {"nccl_mbps_vpn": 1e6 / 8, "iperf3_gbps_public": 1e9 / 8, "iperf3_gbps_vpn": 1e9 / 8}
_FIRST = np.geomspace(1e5, 1e7, 200)  # first windows to try, in bytes


def left_out_links(column: str) -> FloatArray:
    """Predict each link's rate by the others' median window; return the errors, as fractions."""
    rows = packaged_table("wan_links.csv", ("rtt_ms", column))
    rates = rows.numbers(column) * RATES[column]
    known = np.isfinite(rates)
    rates, trips = rates[known], rows.numbers("rtt_ms")[known] / 1e3
    errors = []
    for row in range(len(rates)):
        others = np.arange(len(rates)) != row
        # Rate times round trip is the window of a link's flow.
        window = float(np.median(rates[others] * trips[others]))
        errors.append(window / trips[row] / rates[row] - 1)
    return np.array(errors)


def left_out_conditions() -> FloatArray:
    """Predict each pair of delay and rate by all others; return the times' errors, as fractions."""
    rows = packaged_table("wan_p2p.csv", ("delay_ms", "bandwidth_gbps", "bytes", "time_ms"))
    delays, rates = rows.numbers("delay_ms") / 1e3, rows.numbers("bandwidth_gbps") * 1e9 / 8
    sizes, times = rows.numbers("bytes"), rows.numbers("time_ms") / 1e3
    predicted = np.empty(len(times))
    for delay, rate in set(zip(delays.tolist(), rates.tolist(), strict=True)):
        out = (delays == delay) & (rates == rate)
        known = ~out
        first, factors = _fit(sizes[known], delays[known], rates[known], times[known])
        predicted[out] = _terms(first, sizes[out], delays[out], rates[out]) @ factors
    return predicted / times - 1


def _terms(first: float, sizes: FloatArray, delays: FloatArray, rates: FloatArray) -> FloatArray:
    """Return the terms of a time, shape (transfers, 2): at full rate, and the window's growth."""
    return np.stack([sizes / rates, np.maximum(0, delays - first / rates)], axis=1)


def _fit(
    sizes: FloatArray, delays: FloatArray, rates: FloatArray, times: FloatArray
) -> tuple[float, FloatArray]:
    """Fit the first window and the factors of the terms by least squares of relative errors.

    A search over the window, in which the error has kinks; the factors are linear.
    """
    found: list[tuple[float, float, FloatArray]] = []
    for first in _FIRST.tolist():
        # Divided by the measured times, with targets of one: least squares of relative errors.
        terms = _terms(first, sizes, delays, rates) / times[:, None]
        solution, *_ = np.linalg.lstsq(terms, np.ones(len(times)), rcond=None)
        factors = np.asarray(solution, float)
        error = float(np.sum((terms @ factors - 1) ** 2))
        found.append((error, first, factors))
    _, first, factors = min(found, key=lambda each: each[0])
    return first, factors
