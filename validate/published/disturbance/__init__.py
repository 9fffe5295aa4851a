"""Predicted disturbances beside published ones: jobs' step times and servers' faults."""

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
