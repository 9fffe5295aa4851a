"""One-time costs of a run, which do not depend on its number of steps."""

from __future__ import annotations

from dataclasses import dataclass, replace

from dpsim.engine.job import Job
from dpsim.workload import optimizer_state_bytes


@dataclass(frozen=True, slots=True)
class OneTimeCosts:
    """``startup_s``: until all workers have rank 0's state, at the start and after a restart.

    ``consensus_s``: the final averaging round.
    """

    startup_s: float
    consensus_s: float


def one_time_costs(job: Job) -> OneTimeCosts:
    """Return the one-time costs of ``job``."""
    aggregation, cell = job.scenario.strategy.aggregation, job.scenario.cell
    # Each GPU of a cell holds a part of the model, and receives only that.
    parameters, trained = (-(-each // cell) for each in (job.model.parameters, job.model.trained))
    bytes_per_parameter = job.model.parameter_bytes
    optimizer_bytes = optimizer_state_bytes(job.scenario.workload.optimizer, bytes_per_parameter)
    state_bytes = parameters * bytes_per_parameter + round(trained * optimizer_bytes)
    setting = job.setting
    if setting.disturbed:
        # The scenario may ask for rounds, which cannot represent other traffic (with gossip, say).
        setting = replace(setting, kind="auto")
    consensus = aggregation.consensus(trained * job.model.parameter_bytes, setting)
    startup = 0.0 if job.silent else aggregation.startup(job.model, state_bytes, setting)
    return OneTimeCosts(startup, consensus)
