"""Disturbances beside published ones: step times of jobs, and faults of servers."""

from validate.published.disturbance.faults import RateCheck, left_out_nodes
from validate.published.disturbance.steps import (
    QUANTILES,
    JobError,
    LogError,
    left_out_jobs,
    other_logs,
    second_halves,
)

__all__ = [
    "QUANTILES",
    "JobError",
    "LogError",
    "RateCheck",
    "left_out_jobs",
    "left_out_nodes",
    "other_logs",
    "second_halves",
]
