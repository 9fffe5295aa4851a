"""How often to write checkpoints, and what crashes cost: Daly's formulas.

Crashes strike at random (exponential, mean time ``mtbf`` between any two) at any moment, also while
a checkpoint is written or the job restarts; all work since the last checkpoint is done again. All
times in seconds. Source: Daly, "A higher order estimate of the optimum checkpoint interval for
restart dumps", Future Generation Computer Systems 22, 2006; to first order it is Young's
sqrt(2 cost mtbf), CACM 17, 1974.
"""

from __future__ import annotations

import math


def daly_interval(cost: float, mtbf: float) -> float:
    """Seconds of work between checkpoints that lose least.

    It is sqrt(2 cost mtbf) (1 + x / 3 + x**2 / 9) - cost with x = sqrt(cost / (2 mtbf)), and mtbf
    where cost is 2 mtbf or more.
    """
    if cost >= 2 * mtbf:
        return mtbf
    x = math.sqrt(cost / (2 * mtbf))
    return math.sqrt(2 * cost * mtbf) * (1 + x / 3 + x**2 / 9) - cost


def expected_seconds(
    work: float, interval: float, cost: float, restart: float, mtbf: float
) -> float:
    """Expected seconds for ``work`` seconds of computing, a checkpoint after each interval.

    They are mtbf exp(restart / mtbf) (exp((interval + cost) / mtbf) - 1) work / interval, exact for
    exponential crashes. Infinite where it never ends.
    """
    exponent = (interval + cost) / mtbf
    if exponent + restart / mtbf > 700:  # exp() would overflow
        return math.inf
    # A period is often a small part of mtbf, and there exp() - 1 would lose its digits.
    return mtbf * math.exp(restart / mtbf) * math.expm1(exponent) * work / interval


def expected_with_copies(
    segments: int,
    segment: float,
    cost: float,
    to_storage: tuple[float, float],
    to_copy: tuple[float, float],
) -> float:
    """Expected seconds of a period: ``segments`` that each end in a copy, then a checkpoint.

    Some crashes go back to the last copy, in a neighbour's memory, others to the last checkpoint.
    ``segment`` and ``cost``: seconds of each segment and of the checkpoint. ``to_storage``,
    ``to_copy``: crashes a second of that kind, and seconds of a restart, which may be struck as
    well. Exact for exponential crashes; infinite where it never ends.

    With E_i the seconds from copy i on, F_i from a restart there, G from a restart at the
    checkpoint, q the share of crashes that go back to a copy, and p(t) the chance that t seconds
    pass without any, a segment is

        E_i = m(t) + p(t) E_(i+1) + (1 - p(t)) (q F_i + (1 - q) G),  m(t) = (1 - p(t)) / rate

    F_i and G are alike, and solved for E_i it is a + (1 - p) G + p E_(i+1): a geometric series.
    """
    (lost_rate, restart), (kept_rate, copy_restart) = to_storage, to_copy
    rate = lost_rate + kept_rate
    to_last_copy = kept_rate / rate
    if rate * restart > 700:  # exp() would overflow
        return math.inf
    struck = -math.expm1(-rate * copy_restart)  # a restart at a copy
    ends = 1 - struck * to_last_copy
    if ends <= 0:  # every restart is struck
        return math.inf

    def passed(seconds: float) -> tuple[float, float]:
        """``a`` of the series, and its 1 - p, for a segment of that length."""
        crashed = -math.expm1(-rate * seconds)
        goes_on = 1 - crashed * to_last_copy * (1 - struck) / ends
        if goes_on <= 0:  # every segment is
            return math.inf, 1.0
        spent = crashed / rate + crashed * to_last_copy * struck / rate / ends
        return spent / goes_on, crashed * (1 - to_last_copy) / ends / goes_on

    spent, back = passed(segment)
    last_spent, last_back = passed(cost)
    reached = math.exp(segments * math.log1p(-back)) if back < 1 else 0.0
    whole = reached * (1 - last_back)
    if not whole:
        return math.inf
    times = (1 - reached) / back if back else segments
    again = math.expm1(rate * restart) / rate
    return (spent * times + reached * last_spent + again * (1 - whole)) / whole


def waiting_share(load: float, spares: int) -> float:
    """Fraction of time in which a job stands still for want of a spare.

    ``load`` is the number of workers that would be in repair on average, crashes per second times
    seconds of repair. The job stops while more than ``spares`` are in repair, and nothing crashes
    then: a loss system of spares + 1 servers, and this is Erlang's B formula, whatever the
    distribution of repair times. Source: Erlang 1917; its insensitivity: Sevastyanov 1957.
    """
    # Erlang's recursion, server by server: the powers and factorials of the formula itself
    # overflow.
    blocked = 1.0
    for servers in range(1, spares + 2):
        blocked = load * blocked / (servers + load * blocked)
    return blocked


def missing_share(load: float, spares: int) -> float:
    """How many are missing on average where a job goes on without: those in repair past the spares.

    ``load`` as above; the number N in repair is Poisson (M/G/infinity), and this is the mean of
    what exceeds the s ``spares``: load P(N >= s) - s P(N > s).
    """
    from scipy.special import pdtrc

    # Tails from scipy, since exp(-load) is 0 for the loads of large jobs.
    at_least = 1.0 if spares == 0 else float(pdtrc(spares - 1, load))
    missing = load * at_least - spares * float(pdtrc(spares, load))
    return max(0.0, missing)
