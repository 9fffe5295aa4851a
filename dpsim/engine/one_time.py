"""What a run pays once, however many steps it takes."""

from __future__ import annotations

from dataclasses import dataclass

from dpsim.engine.job import Job
from dpsim.workload import OPTIMIZER_STATES


@dataclass(frozen=True, slots=True)
class OneTimeCosts:
    """``startup_s``: until all have what rank 0 has, at the start and after a restart.

    ``consensus_s``: the round at the end.
    """

    startup_s: float
    consensus_s: float


def one_time_costs(job: Job) -> OneTimeCosts:
    """What ``job`` pays once."""
    aggregation, cell = job.scenario.strategy.aggregation, job.scenario.cell
    # Of a cell each GPU holds a part, and gets that alone.
    parameters, trained = (-(-each // cell) for each in (job.model.parameters, job.model.trained))
    # The weights themselves, and as much again for each state that the optimiser keeps.
    states = OPTIMIZER_STATES[job.scenario.workload.optimizer]
    state = (parameters + trained * states) * job.model.parameter_bytes
    consensus = aggregation.consensus(trained * job.model.parameter_bytes, job.setting)
    startup = 0.0 if job.silent else aggregation.startup(job.model, state, job.setting)
    return OneTimeCosts(startup, consensus)
