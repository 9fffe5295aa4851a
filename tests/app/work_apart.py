"""Work that tests have done in another process, which imports it from here."""

import os

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
