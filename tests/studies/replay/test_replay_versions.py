"""Which version each gradient is computed on: as the engine counts it, and as SSP's rule allows
it.
"""

import numpy as np
import pytest

from dpsim.disturbance import random_stream
from dpsim.strategy.sync import DROPPED
from dpsim.studies.replay import first_reads
from dpsim.studies.replay.learning import NETWORKS, Sampler, digits

SERVERS = "parameter-server"
UNEVEN = {"jitter": {"kind": "gamma", "cv": 0.5}, "slow": [{"workers": [1], "factor": 2}]}
ONE_VERSION = [
    ("allreduce", "bsp"),
    ("allreduce", "backup"),
    ("allreduce", "ssp"),
    ("allreduce", "asp"),
    (SERVERS, "backup"),
    (SERVERS, "ssp"),
    (SERVERS, "asp"),
]


def of_steps(replay, values):
    """Values of gradients as an array (steps, workers) of the iterations that count."""
    gradients, steps = replay.gradients, replay.steps.versions.shape[0]
    found = np.full(replay.steps.versions.shape, np.iinfo(np.int64).min)
    counted = gradients.clock < steps
    found[gradients.clock[counted], gradients.worker[counted]] = values[counted]
    return found


@pytest.mark.parametrize(("aggregation", "sync"), ONE_VERSION)
def test_staleness_is_the_engines(replayed, aggregation, sync):
    replay = replayed(
        5, aggregation=aggregation, sync=sync, disturbance=UNEVEN, settings={"steps": 30}
    )
    gradients = replay.gradients
    applied = (gradients.update >= 0) & (gradients.update < len(replay.times))
    late = np.where(applied, gradients.update - gradients.read, DROPPED)
    engine, mine = replay.steps.versions, of_steps(replay, late)
    ended = (
        of_steps(replay, np.where(gradients.update < len(replay.times), 1, 0)) == 1
    )  # the others came after the last update
    assert ended.mean() > 0.8
    np.testing.assert_array_equal(mine[ended], engine[ended])
    if sync == "asp":
        assert engine.max() > 1, "else there is nothing to compare"


def test_staleness_of_pairs_is_the_engines(replayed):
    replay = replayed(
        5, aggregation="gossip", sync="asp", disturbance=UNEVEN, settings={"steps": 30}
    )
    order = np.lexsort((replay.gradients.update,))
    applied = [each for each in order if replay.gradients.update[each] < len(replay.times)]
    late = np.zeros(len(order), dtype=int)
    late[applied] = replay.versions
    np.testing.assert_array_equal(of_steps(replay, late), replay.steps.versions)
    assert replay.versions.max() > 1


@pytest.mark.parametrize("staleness", [0, 1, 3])
@pytest.mark.parametrize("aggregation", ["allreduce", SERVERS])
def test_the_rule_of_stale_synchronous_parallel(replayed, aggregation, staleness):
    """Up to clock t - s - 1 and own ones always; in the window [t - s, t + s - 1] as they come;
    nothing beyond.
    """
    sync = {"kind": "ssp", "staleness": staleness}
    replay = replayed(
        5, aggregation=aggregation, sync=sync, disturbance=UNEVEN, settings={"steps": 40}
    )
    gradients, workers = replay.gradients, np.arange(replay.workers)
    firsts = first_reads(gradients, own_reads=replay.own_reads)
    last = np.array([gradients.clock[gradients.worker == worker].max() for worker in workers])
    seen = []
    for worker, clock, first in zip(gradients.worker, gradients.clock, firsts, strict=True):
        own, others = first[worker], first[workers != worker]
        assert own == clock + 1 or clock == last[worker]
        guaranteed = clock + staleness + 1
        assert (
            (others != -1) & (others <= guaranteed) | (last[workers != worker] < guaranteed)
        ).all()
        seen += (others[others != -1] - clock).tolist()
    assert min(seen) >= 1 - staleness
    if staleness == 0:
        assert set(seen) == {1}
    if staleness == 3:
        assert len(set(seen)) > 1, "within the window, some read it before others do"


def test_a_worker_that_runs_ahead_of_an_all_reduce_has_its_own_gradients(replayed):
    """From only the log.

    The version read, less what the worker's own gradients that it lacks will change.
    """
    replay = replayed(
        2,
        sync={"kind": "ssp", "staleness": 2},
        disturbance={"jitter": {"kind": "gamma", "cv": 0.5}},
    )
    network, data, deal = NETWORKS["softmax"], digits(), Sampler(len(digits().labels), 2, 4, 0)
    each = replay.gradients
    read = dict(
        zip(
            zip(each.clock.tolist(), each.worker.tolist(), strict=True),
            each.read.tolist(),
            strict=True,
        )
    )
    versions, found = [network.start(random_stream(0, "parameters", 0))], {}
    for step in range(12):
        for worker in (0, 1):
            lacking = sum(found[clock, worker] for clock in range(read[step, worker], step))
            held = versions[read[step, worker]] - 0.1 / 2 * lacking
            chosen = deal.indices(np.array([worker]), np.array([step]))
            found[step, worker] = network.gradients(
                held[None], data.images[chosen], data.labels[chosen]
            )[1][0]
        versions.append(versions[-1] - 0.1 / 2 * (found[step, 0] + found[step, 1]))
    assert min(version - step for (step, _), version in read.items()) == -2
    np.testing.assert_allclose(replay.parameters, versions[-1], rtol=0, atol=1e-13)


def test_fates_say_what_became_of_each_gradient(replayed):
    replay = replayed(4, sync={"kind": "backup", "backups": 1}, disturbance=UNEVEN)
    listed = replay.gradient_histories()
    assert len(listed) == 48
    by_fate = {
        name: [fate for fate in listed if fate.fate == name] for name in ("applied", "dropped")
    }
    assert {len(each) > 0 for each in by_fate.values()} == {True}
    assert len(by_fate["applied"]) + len(by_fate["dropped"]) == 48
    assert all(
        fate.update is None and fate.applied_s is None and fate.first_read is None
        for fate in by_fate["dropped"]
    )
    for fate in by_fate["applied"]:
        assert fate.begun_s < fate.done_s <= fate.applied_s
        assert fate.update - fate.read == fate.staleness == 0
    assert sum(point.samples for point in replay.curve.points[-1:]) == 4 * len(by_fate["applied"])


def test_dropped_gradients_change_nothing(replayed):
    """Of two workers the slow one is never waited for: only the other moves the parameters."""
    slow = {"slow": [{"workers": [1], "factor": 5}]}
    replay = replayed(
        2, aggregation=SERVERS, sync={"kind": "backup", "backups": 1}, disturbance=slow
    )
    update = replay.gradients.update
    assert set(replay.gradients.worker[(update >= 0) & (update < len(replay.times))].tolist()) == {
        0
    }
    assert set(replay.gradients.worker[update == DROPPED].tolist()) == {1}
