"""Scenarios run on real ranks and predicted, side by side.

    cases = [Case("scenarios/testbed/allreduce.yaml")]                  # from validate.emulate
    for run in on_testbed(cases, repetitions=3):
        run.predicted.step_time_s["mean"], run.measured.step_time_s["mean"], run.error["step_time"]

`here` does the same in a run that torchrun started. `run_plan` runs a whole plan of variants and
yields the records that `validate.compare` reads.
"""

from validate.run.methods import library_of, method_of
from validate.run.plan import Plan, load_plan, run_plan
from validate.run.real import real_run
from validate.run.runs import PartialRunError, here, on_testbed
from validate.run.step_run import EVERY_STEP, StepRun, step_run, typical

__all__ = [
    "EVERY_STEP",
    "PartialRunError",
    "Plan",
    "StepRun",
    "here",
    "library_of",
    "load_plan",
    "method_of",
    "on_testbed",
    "real_run",
    "run_plan",
    "step_run",
    "typical",
]
