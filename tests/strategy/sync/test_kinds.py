"""What the kinds of synchronisation do on their own, in one tiny case each; and what they refuse."""

import numpy as np
import pytest
from pydantic import ValidationError

from dpsim import simulate
from dpsim.base.errors import DpsimError


def test_models_are_averaged_every_h_steps_and_nothing_travels_in_between(tiny):
    """2 workers, ring: 2 rounds of 1 MB, 2 s, after the steps 3 and 6."""
    steps = simulate(tiny(sync={"kind": "local-sgd", "every": 3}, run={"steps": 6})).steps
    np.testing.assert_allclose(steps.step[:, 0], [10.5, 10.5, 12.5, 10.5, 10.5, 12.5], rtol=1e-8)


def test_post_local_sgd_begins_with_synchronous_steps(tiny):
    """They count warm-up; the period begins at the switch."""
    local = {"kind": "local-sgd", "every": 2, "switch_after": 3}
    steps = simulate(tiny(sync=local, run={"steps": 6, "warmup": 1})).steps
    np.testing.assert_allclose(steps.step[:, 0], [12.5, 12.5, 10.5, 12.5, 10.5, 12.5], rtol=1e-8)


def test_bytes_of_local_sgd_are_those_of_the_steps_that_average(tiny):
    often, seldom = (
        simulate(
            tiny(3, sync={"kind": "local-sgd", "every": every}, run={"steps": 8})
        ).traffic.sent_in_total
        for every in (1, 4)
    )
    assert often == 4 * seldom == 2 * (3 - 1) * 2_000_000


def test_the_average_of_models_travels_beside_the_next_step(tiny):
    """2 s of communication hide in 10.5 s of computing; an all-reduce of gradients after the
    backward pass cannot.
    """
    averaged, summed = (
        simulate(tiny(sync=sync, run={"steps": 4})).steps for sync in ("sma", "bsp")
    )
    assert (averaged.step == 10.5).all()
    np.testing.assert_allclose(summed.step, 12.5, rtol=1e-8)
    np.testing.assert_allclose(averaged.overlapped_comm, 2, rtol=1e-8)


def test_an_average_that_takes_longer_than_a_step_is_waited_for(tiny):
    """2 rounds of 1 s and 6 s on the way: 14 s, which begin when the one before is through."""
    steps = simulate(tiny(2, 6.0, sync="sma", run={"steps": 6})).steps
    np.testing.assert_allclose(steps.step[2:], 14, rtol=1e-8)


def test_a_stale_all_reduce_hides_behind_as_many_steps(tiny):
    """14 s of communication in steps of 10.5 s.

    SSP(1) is held to its pace, SSP(0) waits for all of it.
    """
    exact, stale = (
        simulate(tiny(2, 6.0, sync={"kind": "ssp", "staleness": s}, run={"steps": 6})).steps
        for s in (0, 1)
    )
    np.testing.assert_allclose(exact.step, 24.5, rtol=1e-8)
    np.testing.assert_allclose(stale.step[2:], 14, rtol=1e-8)
    assert (stale.versions[1:] == 1).all()


def test_the_first_that_is_there_begins_a_solo_all_reduce(tiny):
    """Worker 0 is fast and waits only for 2 s of communication; what worker 1 computed goes into a
    later one.
    """
    slow = {"slow": [{"workers": [1], "factor": 2}]}
    steps = simulate(tiny(sync="asp", run={"steps": 3}, disturbance=slow)).steps
    np.testing.assert_allclose(steps.step[:, 0], 12.5, rtol=1e-8)
    assert not steps.straggler_wait[:, 0].any()
    assert steps.versions[:, 0].tolist() == [0, 0, 0]
    assert steps.versions[0, 1] == 1


@pytest.mark.parametrize("aggregation", ["allreduce", "parameter-server"])
@pytest.mark.parametrize("workers", [1, 2])
def test_all_workers_cannot_be_backups(tiny, aggregation, workers):
    sync = {"kind": "backup", "backups": 2}
    with pytest.raises(
        DpsimError, match=rf"strategy.sync.backups: must be below the {workers} workers, but got 2"
    ):
        simulate(tiny(workers, aggregation=aggregation, sync=sync))


def test_epochs_need_a_data_set(tiny):
    with pytest.raises(
        DpsimError,
        match=r"strategy.sync.unit: must be steps or samples where workload.dataset is not given",
    ):
        simulate(tiny(sync={"kind": "local-sgd", "unit": "epochs"}))


@pytest.mark.parametrize(
    ("sync", "rule"),
    [
        ({"kind": "ssp", "staleness": -1}, "greater than or equal to 0"),
        ({"kind": "backup", "backups": -1}, "greater than or equal to 0"),
        ({"kind": "local-sgd", "every": 0}, "greater than 0"),
        ({"kind": "sma", "momentum": 1}, "less than 1"),
        ({"kind": "sma", "correction": 0}, "greater than 0"),
    ],
)
def test_a_number_out_of_its_range_is_refused(tiny, sync, rule):
    with pytest.raises(ValidationError, match=rule):
        tiny(sync=sync)
