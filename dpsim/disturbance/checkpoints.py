"""How often to write checkpoints, and what crashes cost: Daly's formulas.

Crashes occur at random (exponential, with mean time ``mtbf`` between two) at any moment, also while
a checkpoint is written or the job restarts; all work since the last checkpoint is repeated. All
times are in seconds. Source: Daly, "A higher order estimate of the optimum checkpoint interval for
restart dumps", Future Generation Computer Systems 22, 2006; to first order it is Young's sqrt(2
cost mtbf), CACM 17, 1974.
"""

from __future__ import annotations

import math


def daly_interval(cost: float, mtbf: float) -> float:
    """Return the seconds of work between checkpoints that lose the least time.

    The interval is sqrt(2 cost mtbf) (1 + x / 3 + x**2 / 9) - cost with x = sqrt(cost / (2 mtbf)),
    or mtbf if cost is 2 mtbf or more.
    """
    if cost >= 2 * mtbf:
        return mtbf
    x = math.sqrt(cost / (2 * mtbf))
    return math.sqrt(2 * cost * mtbf) * (1 + x / 3 + x**2 / 9) - cost


def expected_seconds(
    work: float, interval: float, cost: float, restart: float, mtbf: float
) -> float:
    """Return the expected seconds for ``work`` seconds of computing, one checkpoint per interval.

    They are mtbf exp(restart / mtbf) (exp((interval + cost) / mtbf) - 1) work / interval, exact for
    exponential crashes; infinite if the job never ends.
    """
    exponent = (interval + cost) / mtbf
    if exponent + restart / mtbf > 700:  # exp() would overflow
        return math.inf
    # A period is often a small part of mtbf, where exp() - 1 would lose precision.
    return mtbf * math.exp(restart / mtbf) * math.expm1(exponent) * work / interval


def expected_with_copies(
    segments: int,
    segment: float,
    cost: float,
    to_storage: tuple[float, float],
    to_copy: tuple[float, float],
) -> float:
    """Return the expected seconds of ``segments`` that each end with a copy, then a checkpoint.

    Some crashes return to the last copy in a neighbour's memory, others to the last checkpoint.
    ``segment``, ``cost``: seconds of each segment and of the checkpoint. ``to_storage``,
    ``to_copy``: rate of the crashes that return there, and seconds of a restart, which may crash.
    Exact for exponential crashes; infinite if the period never ends.

    Let E_i be the seconds from copy i on, F_i from a restart at copy i, G from a restart at the
    checkpoint, q the share of crashes that return to a copy, and p(t) the probability of t seconds
    without a crash. Then

        E_i = m(t) + p(t) E_(i+1) + (1 - p(t)) (q F_i + (1 - q) G),  m(t) = (1 - p(t)) / rate

    F_i and G have the same form. Solving for E_i gives a + (1 - p) G + p E_(i+1): a geometric
    series.
    """
    (lost_rate, restart), (kept_rate, copy_restart) = to_storage, to_copy
    rate = lost_rate + kept_rate
    to_last_copy = kept_rate / rate
    if rate * restart > 700:  # exp() would overflow
        return math.inf
    restart_crashes = -math.expm1(-rate * copy_restart)  # probability, of a restart at a copy
    restarted = 1 - restart_crashes * to_last_copy
    if restarted <= 0:  # every restart crashes
        return math.inf

    def coefficients(seconds: float) -> tuple[float, float]:
        """Return a and 1 - p of the series for a segment of that length."""
        crashed = -math.expm1(-rate * seconds)
        advances = 1 - crashed * to_last_copy * (1 - restart_crashes) / restarted
        if advances <= 0:  # every segment crashes
            return math.inf, 1.0
        spent = crashed / rate + crashed * to_last_copy * restart_crashes / rate / restarted
        return spent / advances, crashed * (1 - to_last_copy) / restarted / advances

    spent, back = coefficients(segment)
    last_spent, last_back = coefficients(cost)
    reached = math.exp(segments * math.log1p(-back)) if back < 1 else 0.0
    completed = reached * (1 - last_back)
    if not completed:
        return math.inf
    repeats = (1 - reached) / back if back else segments
    restarts = math.expm1(rate * restart) / rate
    return (spent * repeats + reached * last_spent + restarts * (1 - completed)) / completed


def waiting_share(load: float, spares: int) -> float:
    """Return the fraction of time in which a job waits for a spare.

    ``load`` is the mean number of workers in repair: crashes per second times seconds of repair.
    The job stops while more than ``spares`` are in repair, and nothing crashes then. This is a loss
    system of spares + 1 servers, described by Erlang's B formula whatever the distribution of
    repair times. Source: Erlang 1917; its insensitivity: Sevastyanov 1957.
    """
    # Erlang's recursion over servers: the powers and factorials of the formula itself overflow.
    blocked = 1.0
    for servers in range(1, spares + 2):
        blocked = load * blocked / (servers + load * blocked)
    return blocked


def missing_share(load: float, spares: int) -> float:
    """Return the mean number of workers missing from a job that continues without them.

    Workers are missing if more are in repair than there are spares. ``load`` as above; the number N
    in repair is Poisson (M/G/infinity), and the mean excess over the s ``spares`` is load P(N >= s)
    - s P(N > s).
    """
    from scipy.special import pdtrc

    # Use scipy's tails, since exp(-load) is 0 for the loads of large jobs.
    at_least = 1.0 if spares == 0 else float(pdtrc(spares - 1, load))
    missing = load * at_least - spares * float(pdtrc(spares, load))
    return max(0.0, missing)
