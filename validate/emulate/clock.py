"""The clock of emulated compute.

Monotonic seconds, which all processes of one machine share, and waits that sleep.
"""

from __future__ import annotations

import os
import time
from contextlib import suppress

now = time.monotonic
_PRIORITY = 6  # one above that of processes started by `validate.ranks.launch`


def sleep_until(deadline: float) -> None:
    """Sleep until ``deadline`` on the monotonic clock, if it has not passed."""
    # Never spin: with real-time priority that would block other ranks from the processor.
    while (left := deadline - now()) > 0:
        time.sleep(left)


def before_all_others() -> None:
    """Give this thread and those that it starts precedence over all other work, if permitted."""
    with suppress(PermissionError, AttributeError):  # not available on systems other than Linux
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(_PRIORITY))


class Pace:
    """Timed waits that follow each other without accumulating lateness.

    The end of one is the start of the next. ``at`` is the planned time so far. After another wait,
    `resume` starts again from now.
    """

    def __init__(self, start: float) -> None:
        self.at = start

    def spend(self, seconds: float) -> None:
        """Let ``seconds`` pass since the end of the last wait."""
        self.at += seconds
        if seconds > 0:
            sleep_until(self.at)

    def resume(self) -> None:
        """Let the next wait start now."""
        self.at = now()
