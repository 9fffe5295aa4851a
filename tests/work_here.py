"""The dashboard's work in the test's own process, where a test may replace what is computed."""

from app.work import MOST_SECONDS, SHORT_S
from dpsim.base.budget import limited


class Here:
    """In place of a `Child`."""

    def __init__(self, prepare=None):
        pass

    def run(self, function, *, report, seconds):
        # Nothing moves to the processes for long work.
        with limited(MOST_SECONDS if seconds == SHORT_S else seconds):
            return function(report)

    def start(self):
        pass

    def end(self):
        pass
