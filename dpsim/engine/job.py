"""One training job: each worker's computing and communication in a step."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import cached_property
from typing import Self

from dpsim.engine.calls import StagedCall, calls_in
from dpsim.engine.job_without_calls import Exchange, JobWithoutCalls
from dpsim.scenario import Scenario

__all__ = ["Exchange", "Job"]


class Job(JobWithoutCalls):
    """One training job: each worker's computing and communication in a step."""

    def exchange(self, step: int) -> Exchange:
        """Return the calls in which workers exchange data in step ``step``."""
        sync, period = self.scenario.strategy.sync, self.period
        return Exchange(
            sync.exchanges(step, period), sync.grouped(step), sync.fragments(step, period)
        )

    def calls(self, step: int) -> tuple[StagedCall, ...]:
        """Return the calls of step ``step``, in order; none if the job is `silent`."""
        return self.calls_of[self.exchange(step)]

    @cached_property
    def calls_of(self) -> dict[Exchange, tuple[StagedCall, ...]]:
        """The calls of each kind of step."""
        # From the strategy's first own step on, exchanges repeat in each cycle.
        cycle_end = self.scenario.strategy.sync.first_own_step + self.cycle
        steps = range(min(self.counted.stop, cycle_end))
        kinds = dict.fromkeys(self.exchange(step) for step in steps)
        known: Mapping[Exchange, tuple[StagedCall, ...]] = vars(self).get("_known_calls", {})
        return {kind: known[kind] if kind in known else self._calls_of(kind) for kind in kinds}

    def for_scenario(self, scenario: Scenario) -> Self:
        """Return this job for ``scenario``, which may differ in number of steps and jitter."""
        job = replace(self, scenario=scenario)
        # The calls depend on neither, and planning them may take as long as simulating.
        vars(job)["_known_calls"] = self.calls_of
        return job

    def _calls_of(self, kind: Exchange) -> tuple[StagedCall, ...]:
        calls = calls_in(self, kind)
        if not kind.fragments or self.silent:
            return calls
        from dpsim.engine.outer_step import outer_calls

        return (*calls, *outer_calls(self, kind.fragments))

    def outer_communication_s(self) -> float:
        """Return the mean seconds per step that the communicator between groups is busy."""
        steps = self.counted[: self.cycle]
        return sum(
            self.collective_seconds(name, nbytes, step)
            for step in steps
            for call in self.calls(step)
            if call.group == "outer"
            for name, nbytes in call.stages
        ) / len(steps)
