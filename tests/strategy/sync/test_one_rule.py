"""A gate has one rule, whether it is notified of events or queried with vectors over the workers.

Random histories of workers whose messages take no time, for every kind that is registered; then
rules that nobody but this file knows.
"""

import heapq
from typing import Annotated, Literal

import numpy as np
import pytest
from pydantic import Field, NonNegativeInt, create_model

from dpsim import DpsimError, simulate
from dpsim.strategy import StrategyConfig
from dpsim.strategy.sync import DROPPED, AspConfig, Gate, GradientOutcome, QuorumGate, Sync
from tools.combinations_page import kinds_of

WORKERS = 5
EVERY_KIND = pytest.mark.parametrize("kind", kinds_of("sync"))
SEEDS = range(10)
SLOW = {"slow": [{"workers": [0], "factor": 6}], "jitter": {"kind": "gamma", "cv": 0.2}}


def gate_of(kind):
    return StrategyConfig.model_validate({"sync": {"kind": kind}}).sync.gate(WORKERS)


def reported(gate, seconds):
    """Let each worker compute ``seconds`` (steps, workers) and tell ``gate`` of it.

    Returns when each began its steps, and of each gradient before the first worker is through: its
    step and worker, the version that it was computed on, the update that came next, whether it was
    dropped.
    """
    steps, workers = seconds.shape
    starts, judged = np.zeros(seconds.shape), []
    clocks, read = [0] * workers, [0] * workers
    coming = [(seconds[0, worker], worker) for worker in range(workers)]
    heapq.heapify(coming)
    waiting = set()
    while coming:
        now, worker = heapq.heappop(coming)
        update = gate.version
        dropped = gate.hand_over(worker) is GradientOutcome.DROPPED
        if steps not in clocks:
            judged.append((clocks[worker], worker, read[worker], update, dropped))
        clocks[worker] += 1
        waiting.add(worker)
        for other in sorted(waiting):
            if not gate.may_go_on(other):
                continue
            waiting.remove(other)
            read[other] = gate.go_on(other)
            if clocks[other] == steps:
                gate.leave(other)
                continue
            starts[clocks[other], other] = now
            heapq.heappush(coming, (now + seconds[clocks[other], other], other))
    return starts, np.array(judged).T


def read_off(gate, seconds):
    """The same by rounds that take no time: when each worker began, and who was dropped."""
    starts, done, rounds = np.zeros(seconds.shape), np.zeros(seconds.shape), []
    for step in range(len(seconds)):
        if step:
            starts[step] = done[step - 1]
        if step > gate.lag:
            starts[step] = np.maximum(starts[step], rounds[step - gate.lag - 1][1])
        done[step] = starts[step] + seconds[step]
        begin = gate.quorum_ready_at(done[step])
        rounds.append((begin, begin))
    return starts, gate.versions(starts, done, rounds)[1] == DROPPED


def histories(gate):
    """Seconds of computing, (steps, workers), in which no worker is dropped for a whole round.

    It would take part in later rounds with earlier steps.
    """
    for seed in SEEDS:
        random = np.random.default_rng(seed)
        steps, longest = (3, 1.5) if gate.drops else (12, 4.0)
        yield random.uniform(1, longest, (steps, WORKERS))


@EVERY_KIND
def test_what_is_dropped_one_by_one_is_what_does_not_count(kind):
    for seconds in histories(gate_of(kind)):
        gate = gate_of(kind)
        _, (_, _, read, update, dropped) = reported(gate, seconds)
        np.testing.assert_array_equal(gate.counts(read, update), dropped == 0)
        assert gate.drops or not dropped.any()


@EVERY_KIND
def test_workers_begin_their_steps_alike_and_the_same_gradients_are_dropped(kind):
    gate = gate_of(kind)
    if gate.barrier and gate.lag:
        return  # the barrier of a later step, which only rounds have
    if 1 < gate.gradients < WORKERS and gate.counts(0, 1):
        return  # a late gradient's worker is held, where a round leaves nobody waiting
    for seconds in histories(gate_of(kind)):
        one_by_one, (step, worker, *_, dropped) = reported(gate_of(kind), seconds)
        in_rounds, lost = read_off(gate_of(kind), seconds)
        np.testing.assert_allclose(one_by_one, in_rounds, rtol=1e-12)
        np.testing.assert_array_equal(lost[step, worker], dropped == 1)
        assert lost.any() == gate_of(kind).drops


class RecentGate(QuorumGate):
    """Each gradient is an update, if it was computed on one of the last few versions."""

    def __init__(self, workers: int, oldest: int) -> None:
        super().__init__(workers, 1)
        self.oldest = oldest

    def counts(self, read, update):
        """Where so few updates lie in between."""
        return update - read <= self.oldest


class JudgingGate(QuorumGate):
    """The same, notified one by one."""

    def __init__(self, workers: int, oldest: int) -> None:
        super().__init__(workers, 1)
        self.oldest = oldest

    def hand_over(self, worker: int) -> GradientOutcome:
        """Drop it by hand."""
        if self.version - self._read[worker] <= self.oldest:
            return super().hand_over(worker)
        self.clocks.tick(worker)
        self._update[worker] = DROPPED
        return GradientOutcome.DROPPED


class RecentConfig(Sync):
    """Gradients that are older than so many versions are dropped."""

    waits = False
    kind: Literal["recent"] = Field(description="Old gradients are dropped.")
    oldest: NonNegativeInt = Field(default=3, description="s: how old a gradient may be.")
    by_hand: bool = Field(default=False, description="Whether its gate is notified one by one.")

    def gate(self, workers: int) -> Gate:
        """Nobody waits."""
        return (JudgingGate if self.by_hand else RecentGate)(workers, self.oldest)


WITH_RECENT = create_model(
    "StrategyConfig",
    __base__=StrategyConfig,
    sync=(Annotated[AspConfig | RecentConfig, Field(discriminator="kind")], ...),
)


def scenario(tiny, aggregation, **fields):
    asp = tiny(4, aggregation=aggregation, sync="asp", disturbance=SLOW, run={"steps": 8})
    strategy = asp.strategy.model_dump(mode="json") | {"sync": {"kind": "recent", **fields}}
    return asp, asp.model_copy(update={"strategy": WITH_RECENT.model_validate(strategy)})


def test_over_an_all_reduce_the_gradients_are_dropped_that_are_too_old_under_asp(tiny):
    asp, recent = (simulate(each).steps for each in scenario(tiny, "allreduce"))
    old = asp.versions > 3
    assert old[:, 0].sum() >= 6
    assert not old[:, 1:].any()
    np.testing.assert_array_equal(recent.versions, np.where(old, DROPPED, asp.versions))
    np.testing.assert_array_equal(recent.step, asp.step)


def test_at_servers_the_same_rule_leaves_none_that_is_too_old(tiny):
    asp, recent = (simulate(each).steps for each in scenario(tiny, "parameter-server"))
    assert asp.versions.max() > 3
    assert recent.versions.max() <= 3
    assert (recent.versions[:, 0] == DROPPED).sum() >= 6


def test_a_rule_per_worker_works_with_servers_and_is_refused_by_collectives(tiny):
    _, by_counts = scenario(tiny, "parameter-server")
    _, by_hand = scenario(tiny, "parameter-server", by_hand=True)
    np.testing.assert_array_equal(
        simulate(by_hand).steps.versions, simulate(by_counts).steps.versions
    )
    with pytest.raises(DpsimError) as error:
        simulate(scenario(tiny, "allreduce", by_hand=True)[1])
    assert str(error.value) == (
        "strategy.aggregation.kind: must be parameter-server with sync recent, where gradients are "
        "judged one by one, which no collective does, but got 'allreduce'"
    )


def test_pairs_that_average_models_drop_no_gradients(tiny):
    with pytest.raises(DpsimError, match="gradients are dropped, and pairs average models, but "):
        simulate(scenario(tiny, "gossip")[1])


def test_who_may_go_on_by_a_rule_of_its_own_is_no_rule_for_rounds_until_it_says_so():
    class Patient(QuorumGate):
        def may_go_on(self, worker):
            return self.clocks.slowest > 0

    class Confirmed(Patient):
        in_rounds = True

    assert QuorumGate.in_rounds
    assert not Patient.in_rounds
    assert Confirmed.in_rounds


def test_what_is_read_off_vectors_is_nobody_s_to_change():
    with pytest.raises(TypeError, match="must say its rule by quorum, lag and counts, which"):

        class Latecomers(QuorumGate):
            def takes_part(self, there):
                return there
