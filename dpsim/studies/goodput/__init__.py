"""Goodput over weeks: simulates a job that is interrupted, waits for spares and continues.

The job is a chain of stretches: restarting, then computing with a checkpoint after each interval,
until the next fault. A stretch is one step of the simulation. Faults occur at random (exponential)
while the job restarts or computes; nothing fails while it waits. Some repaired hardware fails again
soon (a relapse).
"""

from dpsim.studies.goodput.faults import Fault, Faults, draw_faults
from dpsim.studies.goodput.job import simulate_job
from dpsim.studies.goodput.machine import Machine
from dpsim.studies.goodput.stretch import Course, History, Kept, Stop, Stretch, histories
from dpsim.studies.goodput.study import ByCause, GoodputStudy, goodput_study

__all__ = [
    "ByCause",
    "Course",
    "Fault",
    "Faults",
    "GoodputStudy",
    "History",
    "Kept",
    "Machine",
    "Stop",
    "Stretch",
    "draw_faults",
    "goodput_study",
    "histories",
    "simulate_job",
]
