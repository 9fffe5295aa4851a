"""Timing on a machine that others use too: what fails is measured once more."""


def measured_again(check, measure, times=2):
    """``check(measure())``, up to ``times`` times, until it passes.

    Other work may hold one measurement up. What is wrong by more than its tolerance is so every
    time, and fails.
    """
    for last in (*[False] * (times - 1), True):
        try:
            return check(measure())
        except AssertionError:
            if last:
                raise
    return None
