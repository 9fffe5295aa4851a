"""Irregular steps: jitter, slow workers, crashes, links that change.

Depends only on `base`, and not on the network models.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from dpsim.base.lazy import on_demand
from dpsim.disturbance.config import DisturbanceConfig, JitterConfig, compute_factors
from dpsim.disturbance.random_streams import random_stream, random_streams

if TYPE_CHECKING:
    from dpsim.disturbance.checkpoints import daly_interval, expected_seconds
    from dpsim.disturbance.crashes import Checkpoints, Copies, CrashesConfig, Goodput
    from dpsim.disturbance.fault_trace import read_trace, together
    from dpsim.disturbance.faults import Cause, PerNode
    from dpsim.disturbance.fitting import fit_jitter
    from dpsim.disturbance.histogram import HistogramJitterConfig
    from dpsim.disturbance.jitter import (
        CorrelatedJitterConfig,
        GammaJitterConfig,
        LognormalJitterConfig,
        ParetoJitterConfig,
    )
    from dpsim.disturbance.slow_workers import SlowWorkersConfig
    from dpsim.disturbance.step_times import (
        STEPS_TO_FIT,
        StepLog,
        TimedJob,
        pooled,
        steps_in,
    )
    from dpsim.disturbance.transient import TransientConfig
else:
    __getattr__, __dir__ = on_demand(__name__, __file__)

__all__ = [
    "STEPS_TO_FIT",
    "Cause",
    "Checkpoints",
    "Copies",
    "CorrelatedJitterConfig",
    "CrashesConfig",
    "DisturbanceConfig",
    "GammaJitterConfig",
    "Goodput",
    "HistogramJitterConfig",
    "JitterConfig",
    "LognormalJitterConfig",
    "ParetoJitterConfig",
    "PerNode",
    "SlowWorkersConfig",
    "StepLog",
    "TimedJob",
    "TransientConfig",
    "compute_factors",
    "daly_interval",
    "expected_seconds",
    "fit_jitter",
    "pooled",
    "random_stream",
    "random_streams",
    "read_trace",
    "steps_in",
    "together",
]
