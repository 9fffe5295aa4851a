"""One run: simulate a scenario, and return every worker's steps and the result.

It uses all packages below it, and knows neither studies nor output formats.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from dpsim.base.lazy import on_demand
from dpsim.engine.link_loads import (
    LinkClass,
    LinkLoads,
    busiest_links,
    bytes_in_step,
    link_classes,
    link_loads,
)

if TYPE_CHECKING:
    from dpsim.engine.calibration import calibrated, fitted_factor, prepared_by, scale_to
    from dpsim.engine.calls import StagedCall
    from dpsim.engine.gpu_times import accelerator, learner_times
    from dpsim.engine.independent_workers import MOST_ROUNDS
    from dpsim.engine.intervals import (
        calibrated_error,
        compute_family,
        errors_interval,
        step_errors,
        variance_away,
        whole_step_errors,
    )
    from dpsim.engine.job import Job
    from dpsim.engine.kept_jobs import KeptJobs
    from dpsim.engine.kernel import (
        Engine,
        Recording,
        all_slow_downs,
        exact_for,
        in_simpy,
        mean_step,
        slow_downs,
        with_quick_engine,
    )
    from dpsim.engine.known_residuals import corrected, known_covariance, left_out_error
    from dpsim.engine.learners import learners_by_batch
    from dpsim.engine.link_transfers import OnLinks, load_over_time, overlapping
    from dpsim.engine.log import NEVER, Act, Gradients, Log
    from dpsim.engine.memory import MemoryUse, check_fits, memory_use, remedy_values
    from dpsim.engine.memory_contention import overlapped_bytes, seconds_lost
    from dpsim.engine.one_time import one_time_costs
    from dpsim.engine.pairwise import neighbours
    from dpsim.engine.preparation import (
        prepare,
        reduction_cost,
        transport_costs,
        updated_part,
    )
    from dpsim.engine.refit import Constants, constants_of, resized
    from dpsim.engine.result import Result
    from dpsim.engine.run import Run, run_job, run_scenario, simulate, try_simulate
    from dpsim.engine.run_length import bytes_held, check_length, exchange_cycle
    from dpsim.engine.spending import Cost, Energy, Total
    from dpsim.engine.step_constants import adjusted
    from dpsim.engine.step_priors import (
        Prior,
        ResidualPrior,
        priors_of,
        residual_prior,
        step_noise,
    )
    from dpsim.engine.steps import PARTS, Part, PartName, Steps
    from dpsim.engine.timeline import Interval
    from dpsim.engine.to_target import TimeToTarget, Training, time_to_target
    from dpsim.engine.utilisation import Utilisation, Work
else:
    __getattr__, __dir__ = on_demand(__name__, __file__)

__all__ = [
    "MOST_ROUNDS",
    "NEVER",
    "PARTS",
    "Act",
    "Constants",
    "Cost",
    "Energy",
    "Engine",
    "Gradients",
    "Interval",
    "Job",
    "KeptJobs",
    "LinkClass",
    "LinkLoads",
    "Log",
    "MemoryUse",
    "OnLinks",
    "Part",
    "PartName",
    "Prior",
    "Recording",
    "ResidualPrior",
    "Result",
    "Run",
    "StagedCall",
    "Steps",
    "TimeToTarget",
    "Total",
    "Training",
    "Utilisation",
    "Work",
    "accelerator",
    "adjusted",
    "all_slow_downs",
    "busiest_links",
    "bytes_held",
    "bytes_in_step",
    "calibrated",
    "calibrated_error",
    "check_fits",
    "check_length",
    "compute_family",
    "constants_of",
    "corrected",
    "errors_interval",
    "exact_for",
    "exchange_cycle",
    "fitted_factor",
    "in_simpy",
    "known_covariance",
    "learner_times",
    "learners_by_batch",
    "left_out_error",
    "link_classes",
    "link_loads",
    "load_over_time",
    "mean_step",
    "memory_use",
    "neighbours",
    "one_time_costs",
    "overlapped_bytes",
    "overlapping",
    "prepare",
    "prepared_by",
    "priors_of",
    "reduction_cost",
    "remedy_values",
    "residual_prior",
    "resized",
    "run_job",
    "run_scenario",
    "scale_to",
    "seconds_lost",
    "simulate",
    "slow_downs",
    "step_errors",
    "step_noise",
    "time_to_target",
    "transport_costs",
    "try_simulate",
    "updated_part",
    "variance_away",
    "whole_step_errors",
    "with_quick_engine",
]
