"""Irregular steps: jitter, slow workers, crashes, links that change.

Depends only on `base`, and not on the network models.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from dpsim.base.lazy import on_demand
from dpsim.disturbance.config import (
    BackgroundConfig,
    DisturbanceConfig,
    JitterConfig,
    LinkChangeConfig,
    compute_factors,
)
from dpsim.disturbance.random_streams import random_stream, random_streams

if TYPE_CHECKING:
    from dpsim.disturbance.checkpoints import (
        daly_interval,
        expected_seconds,
        expected_with_copies,
        missing_share,
        waiting_share,
    )
    from dpsim.disturbance.crashes import (
        Checkpoints,
        Copies,
        CrashesConfig,
        Goodput,
        NeighbourConfig,
    )
    from dpsim.disturbance.fault_trace import FaultTrace, read_trace, relapse_chance, together
    from dpsim.disturbance.faults import (
        Cause,
        FaultConfig,
        FaultTraceConfig,
        PerNode,
        known_faults,
    )
    from dpsim.disturbance.fitting import JitterFit, fit_jitter
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
    "BackgroundConfig",
    "Cause",
    "Checkpoints",
    "Copies",
    "CorrelatedJitterConfig",
    "CrashesConfig",
    "DisturbanceConfig",
    "FaultConfig",
    "FaultTrace",
    "FaultTraceConfig",
    "GammaJitterConfig",
    "Goodput",
    "HistogramJitterConfig",
    "JitterConfig",
    "JitterFit",
    "LinkChangeConfig",
    "LognormalJitterConfig",
    "NeighbourConfig",
    "ParetoJitterConfig",
    "PerNode",
    "SlowWorkersConfig",
    "StepLog",
    "TimedJob",
    "TransientConfig",
    "compute_factors",
    "daly_interval",
    "expected_seconds",
    "expected_with_copies",
    "fit_jitter",
    "known_faults",
    "missing_share",
    "pooled",
    "random_stream",
    "random_streams",
    "read_trace",
    "relapse_chance",
    "steps_in",
    "together",
    "waiting_share",
]
