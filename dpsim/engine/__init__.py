"""Puts the parts together: a scenario in, a result out."""

from dpsim.engine.alone import MOST_ROUNDS
from dpsim.engine.in_pairs import neighbours
from dpsim.engine.job import (
    Job,
    learner_times,
    learners_by_batch,
    prepare,
    reduction_cost,
    transport_costs,
)
from dpsim.engine.log import NEVER, Act, Gradients, Log
from dpsim.engine.memory import MemoryUse, memory_use
from dpsim.engine.one_time_costs import one_time_costs
from dpsim.engine.result import PARTS, Bytes, Result
from dpsim.engine.simulate import (
    bytes_in_step,
    calibrated,
    compute_scale,
    logged,
    provenance,
    recorded,
    simulate,
    slow_downs,
    timeline,
)
from dpsim.engine.staged_call import StagedCall
from dpsim.engine.steps import DROPPED, Steps, clock_gaps, versions_behind
from dpsim.engine.timeline import Interval
from dpsim.engine.to_target import TimeToTarget, time_to_target
from dpsim.engine.together import run_together

__all__ = [
    "DROPPED",
    "MOST_ROUNDS",
    "NEVER",
    "PARTS",
    "Act",
    "Bytes",
    "Gradients",
    "Interval",
    "Job",
    "Log",
    "MemoryUse",
    "Result",
    "StagedCall",
    "Steps",
    "TimeToTarget",
    "bytes_in_step",
    "calibrated",
    "clock_gaps",
    "compute_scale",
    "learner_times",
    "learners_by_batch",
    "logged",
    "memory_use",
    "neighbours",
    "one_time_costs",
    "prepare",
    "provenance",
    "recorded",
    "reduction_cost",
    "run_together",
    "simulate",
    "slow_downs",
    "time_to_target",
    "timeline",
    "transport_costs",
    "versions_behind",
]
