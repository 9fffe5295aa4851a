"""Disturbances beside published ones: step times of jobs, and faults of servers."""

from validate.published.disturbance.faults import RateCheck, left_out_nodes
from validate.published.disturbance.steps import QUANTILES, JobError, left_out_jobs, second_halves

__all__ = [
    "QUANTILES",
    "JobError",
    "RateCheck",
    "left_out_jobs",
    "left_out_nodes",
    "second_halves",
]
