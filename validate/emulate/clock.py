"""The clock of emulated compute.

Monotonic seconds, which all processes of one machine share, and waits that sleep.
"""

from __future__ import annotations

import os
import time
from contextlib import suppress

now = time.monotonic
_PRIORITY = 6  # one above what starts under `validate.ranks.launch`


def sleep_until(deadline: float) -> None:
    """Sleep until ``deadline`` on the monotonic clock, if it has not passed."""
    # Never spin: with real-time priority that would keep other ranks off the processor.
    while (left := deadline - now()) > 0:
        time.sleep(left)


def before_all_others() -> None:
    """Put this thread and those that it starts before all other work, if that is permitted."""
    with suppress(PermissionError, AttributeError):  # no such thing on systems other than Linux
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(_PRIORITY))


class Pace:
    """Timed waits that follow each other without adding up their lateness.

    The end of one is the start of the next.

    ``at`` is the time that the waits have come to. After something else was waited for, `resume`
    starts again from now.
    """

    def __init__(self, start: float) -> None:
        self.at = start

    def spend(self, seconds: float) -> None:
        """Let ``seconds`` pass from the end of the last wait on."""
        self.at += seconds
        if seconds > 0:
            sleep_until(self.at)

    def resume(self) -> None:
        """What comes next starts now."""
        self.at = now()
