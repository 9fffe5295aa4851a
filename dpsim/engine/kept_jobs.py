"""Jobs kept for the next scenario: one that differs in its seed alone is not prepared again.

A sweep over seeds so builds cluster, routes, schedules and plan once in each process; one over
strategies builds the cluster once, and times each size of a collective once.
"""

from __future__ import annotations

import copy
import json
from dataclasses import replace

from dpsim.base.config import BY_CONTENT
from dpsim.engine.job import Job
from dpsim.engine.preparation import KeptNetwork, prepare
from dpsim.scenario import Scenario

_MOST_WORKERS = 4096  # a larger job holds too much memory to be kept for what may never come
_MOST_JOBS = 2  # a run that has not settled is simulated again with other steps


class KeptJobs:
    """The jobs that were prepared last; nothing of what they answer shows in the next."""

    def __init__(self) -> None:
        self._jobs: dict[str, Job] = {}
        self._network = KeptNetwork()

    def prepare(self, scenario: Scenario) -> Job:
        """The job of ``scenario``, prepared where none that is kept will do."""
        if scenario.cluster.ranks > _MOST_WORKERS:
            return prepare(scenario)
        key = _key(scenario)
        kept = self._jobs.pop(key, None)
        job = prepare(scenario, network=self._network) if kept is None else _again(kept, scenario)
        self._jobs[key] = job  # last, as the one that was asked for last
        if len(self._jobs) > _MOST_JOBS:
            del self._jobs[next(iter(self._jobs))]
        return job


def _key(scenario: Scenario) -> str:
    """What a job depends on: all but its name, and a seed by which no collective is drawn."""
    # By content: a file that the scenario names may hold something else by now.
    told = scenario.model_dump(mode="json", exclude={"name", "sweep", "cost"}, context=BY_CONTENT)
    if not scenario.strategy.aggregation.drawn:
        del told["run"]["seed"]
    return json.dumps(told, sort_keys=True)


def _again(job: Job, scenario: Scenario) -> Job:
    """``job`` for a scenario with the same key, with all that it has worked out by now."""
    other = copy.copy(job)
    # A job is frozen to those who use it; this copy is nobody's yet.
    vars(other)["scenario"] = scenario
    vars(other)["setting"] = replace(job.setting, seed=scenario.run.seed)
    return other
