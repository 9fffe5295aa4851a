"""Time and memory of one piece of work, and how time grows with its scale."""

import json
import os
import subprocess
import sys
import time
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np

_LOOP_S = 0.26  # of the loop in `slowness` where limits were set: 2 cores of an AMD EPYC
HERE = Path(__file__).parent
PROGRAM = """
import importlib, json, resource, sys, time
sys.path.insert(0, sys.argv[1])
work = getattr(importlib.import_module(sys.argv[2]), sys.argv[3])
begin = time.process_time()
work(*json.loads(sys.argv[4]))
taken = time.process_time() - begin
print(json.dumps([taken, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e6]))
"""


@dataclass(frozen=True)
class Growth:
    """Seconds at scales that grow, of ``what``: ranks, flows, steps."""

    what: str
    seconds: dict[int, float]

    @classmethod
    def of_processes(cls, what, measured):
        """The growth of what `in_own_process` measured, seconds and MB by scale."""
        return cls(what, {scale: taken for scale, (taken, _) in measured.items()})

    @property
    def exponent(self):
        """The slope of log seconds over log scale, by least squares."""
        return float(
            np.polyfit(np.log(list(self.seconds)), np.log(list(self.seconds.values())), 1)[0]
        )

    def __str__(self):
        scales = list(self.seconds)
        return f"x{2**self.exponent:.2f} of {scales[0]:,} to {scales[-1]:,} {self.what}"


def seconds(work, times=1, *, children=False):
    """The least of ``times`` runs in seconds of the processor, or of that of ended ``children``.

    What the work needs, whatever else the machine was doing.
    """
    taken = []
    for _ in range(times):
        begin = _spent(children)
        work()
        taken.append(_spent(children) - begin)
    return min(taken)


@cache
def slowness():
    """How many times as long as on the machine of the limits this one takes for a fixed loop.

    It is of Python's own work and of numpy's, as simulations are.
    """

    def loop():
        table = {}
        for number in range(1_000_000):
            table[number % 1000] = table.get(number % 997, 0) + number
        values = np.arange(200_000.0)
        for _ in range(15):
            values = np.sort(np.sin(values))

    return seconds(loop, times=5) / _LOOP_S


def _spent(children):
    used = os.times()
    return used.children_user + used.children_system if children else time.process_time()


def in_own_process(module, function, *arguments):
    """Seconds of the processor and MB at most of a process of its own, the interpreter and the
    library counted in the latter.
    """
    # A process reports at least the peak of the one that forked it: a shell in between keeps this
    # one's out of the figure.
    python = [sys.executable, "-c", PROGRAM, str(HERE), module, function, json.dumps(arguments)]
    command = ["sh", "-c", '"$@"; exit $?', "sh", *python]
    ran = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    return json.loads(ran.stdout.splitlines()[-1])
