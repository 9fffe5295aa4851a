"""Work that tests have done in another process, which imports it from here."""

import os
from time import thread_time

from app.work import SHORT_S
from dpsim.base.budget import Forecast
from dpsim.base.errors import DpsimError


def nothing():
    """What a process loads in advance."""


def process(report):
    report(1, 1)
    return os.getpid()


def refused(report):
    raise DpsimError("must be another")


def busy(report):
    done = 0
    while True:
        done += 1
        report(done // 10_000, 0) if done % 10_000 == 0 else None


def deaf(report):
    return sum(range(10**12))


def steady(report):
    """Steps that take four times as long as short work may, which the first ones tell."""
    steps = 100
    forecast = Forecast(steps, lambda done: report(done, steps))
    for done in range(1, steps + 1):
        end = thread_time() + 4 * SHORT_S / steps
        while thread_time() < end:
            pass
        forecast.done(done)
    return steps
