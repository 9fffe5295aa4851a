"""A cache of jobs: a scenario that differs only in its seed is not prepared again.

A sweep over seeds builds cluster, routes, schedules and plan once in each process; a sweep over
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

_MOST_WORKERS = 4096  # larger jobs take too much memory to be cached
_MOST_JOBS = 2  # two, because a run that has not settled is simulated again with other steps


class KeptJobs:
    """The jobs that were prepared last; caching does not change any result."""

    def __init__(self) -> None:
        self._jobs: dict[str, Job] = {}
        self._network = KeptNetwork()

    def prepare(self, scenario: Scenario) -> Job:
        """Return the job of ``scenario``, prepared if no cached one fits."""
        if scenario.cluster.ranks > _MOST_WORKERS:
            return prepare(scenario)
        key = _key(scenario)
        kept = self._jobs.pop(key, None)
        job = prepare(scenario, network=self._network) if kept is None else _reused(kept, scenario)
        self._jobs[key] = job  # last, as the most recently used
        if len(self._jobs) > _MOST_JOBS:
            del self._jobs[next(iter(self._jobs))]
        return job


def _key(scenario: Scenario) -> str:
    """Return everything that a job depends on, as a cache key.

    That is the whole scenario except its name, sweep and cost, and except its seed if no collective
    is random.
    """
    # By content, because a file that the scenario names may have changed.
    content = scenario.model_dump(
        mode="json", exclude={"name", "sweep", "cost"}, context=BY_CONTENT
    )
    if not scenario.strategy.aggregation.is_random:
        del content["run"]["seed"]
    return json.dumps(content, sort_keys=True)


def _reused(job: Job, scenario: Scenario) -> Job:
    """Return ``job`` for a scenario with the same key, with all values computed so far."""
    other = copy.copy(job)
    # A job is frozen for its users; this copy has none yet.
    vars(other)["scenario"] = scenario
    vars(other)["setting"] = replace(job.setting, seed=scenario.run.seed)
    return other
