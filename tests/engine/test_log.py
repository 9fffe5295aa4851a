"""The log of who read which version when and whose gradient was applied when, on timelines worked
out by hand.
"""

import numpy as np
import pytest

from dpsim.engine import Recording
from dpsim.engine.log import NEVER
from dpsim.engine.run import run_scenario
from dpsim.strategy.sync import DROPPED

SLOW = {"slow": [{"workers": [1], "factor": 3}]}


def logged(scenario):
    return run_scenario(scenario, Recording(versions=True))


def rows(log):
    """(worker, clock, begun, read, update) of each gradient."""
    each = log.gradients
    columns = each.worker, each.clock, each.begun, each.read, each.update
    return [*zip(*(column.tolist() for column in columns), strict=True)]


def test_bsp_reads_the_newest_version_and_makes_the_next(tiny):
    """A step is 10 s of passes, 2 s of an all-reduce of 2 MB and 0.5 s of an update."""
    log = logged(tiny(2)).log
    assert rows(log) == [(w, c, pytest.approx(12.5 * c), c, c) for c in range(3) for w in range(2)]
    np.testing.assert_allclose(log.times, [12.5, 25.0, 37.5])
    np.testing.assert_allclose(log.gradients.done, [10.0, 10.0, 22.5, 22.5, 35.0, 35.0])


def test_backup_workers_that_are_late_are_dropped(tiny):
    log = logged(tiny(2, sync={"kind": "backup", "backups": 1}, disturbance=SLOW)).log
    assert {(worker, clock): update for worker, clock, _, _, update in rows(log)} == {
        **{(0, clock): clock for clock in range(3)},
        **{(1, clock): DROPPED for clock in range(3)},
    }


def test_asynchronous_workers_read_what_has_come_and_each_is_an_update(tiny):
    """Worker 0 takes its iterations while worker 1 is in its first.

    That one is as stale as those are many.
    """
    run = logged(tiny(2, aggregation="parameter-server", sync="asp", disturbance=SLOW))
    steps, log = run.steps, run.log
    found = rows(log)
    assert found[:2] == [(0, 0, 0.0, 0, 0), (1, 0, 0.0, 0, found[1][4])]
    assert found[1][4] == steps.versions[0, 1] > 1
    updates = sorted(update for *_, update in found if update != NEVER)
    assert updates == [*range(len(log.times))]
    own = {(worker, clock): update for worker, clock, _, _, update in found}
    for worker, clock, begun, read, update in found:
        pulled = sum(
            time < begun for time in log.times
        )  # the pull takes time, in which others may be applied
        assert own.get((worker, clock - 1), -1) < read <= pulled or clock == 0
        assert update >= read
    assert log.times == sorted(log.times)


def test_what_has_no_end_before_the_run_is_no_part_of_an_update(tiny):
    log = logged(tiny(2, aggregation="parameter-server", sync="asp", disturbance=SLOW)).log
    unfinished = log.gradients.update == NEVER
    assert 0 < unfinished.sum() <= 2
    assert np.isnan(log.gradients.done[unfinished]).all()


def test_pairs_are_logged_in_order(tiny):
    log = logged(tiny(4, aggregation="gossip", sync="asp", disturbance=SLOW)).log
    assert {act.what for act in log.acts} == {"read", "averaged", "gave"}
    assert [act.time for act in log.acts] == sorted(act.time for act in log.acts)
    assert [act.number for act in log.acts if act.what == "gave"] == [*range(len(log.times))]
    for worker in range(4):
        mine = [act.what for act in log.acts if act.worker == worker]
        assert mine[:3] == ["read", "averaged", "gave"]


def test_models_of_their_own_are_a_version_a_step(tiny):
    log = logged(tiny(2, sync={"kind": "local-sgd", "every": 2})).log
    assert [(read, update) for *_, read, update in rows(log)] == [
        (c, c) for c in range(3) for _ in range(2)
    ]
    np.testing.assert_allclose(log.times, [10.5, 23.0, 33.5])
