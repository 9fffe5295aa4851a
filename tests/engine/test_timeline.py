"""Known timelines.

What each worker's streams do, worked out by hand on the tiny job (1 MB a layer, 1 MB/s, 10 s of
passes).
"""

import numpy as np
import pytest

from dpsim import simulate
from dpsim.base.errors import DpsimError
from dpsim.engine import Recording, run_scenario

ONE_SERVER = {
    "kind": "parameter-server",
    "servers": 1,
    "colocated": False,
    "update_rate": "2 MB/s",
}  # 1 s a push
SLOW = {"slow": [{"workers": [1], "factor": 2}]}


def timeline(scenario, step=0, workers=8):
    """What the first ``workers`` did in one step."""
    return run_scenario(
        scenario, Recording(1, first=step, workers=workers), settle=False
    ).intervals()


def assert_timeline(scenario, expected, step=0, workers=8):
    """(worker, stream, name, start, end), to the microsecond."""
    found = timeline(scenario, step, workers)
    assert [each[:3] for each in found] == [each[:3] for each in expected]
    np.testing.assert_allclose(
        [each[3:] for each in found], [each[3:] for each in expected], atol=1e-6
    )


def test_a_synchronous_step(tiny):
    """Layer 1's gradient, ready at 7, travels while layer 0 goes backward; layer 0's is not
    hidden.
    """
    each = [
        ("communication", "tensor1: all-reduce", 7, 8),
        ("communication", "tensor0: all-reduce", 10, 11),
        ("compute", "forward", 0, 3),
        ("compute", "backward", 3, 7),
        ("compute", "backward", 7, 10),
        ("compute", "update", 11, 11.5),
    ]
    assert_timeline(tiny(overlap="wfbp"), [(worker, *rest) for worker in (0, 1) for rest in each])


def test_a_synchronous_step_with_a_slow_worker(tiny):
    assert_timeline(
        tiny(disturbance=SLOW),
        [
            (
                0,
                "communication",
                "all: all-reduce",
                10,
                22,
            ),  # it is in it from 10 on, as a kernel on a stream is
            (0, "compute", "forward", 0, 3),
            (0, "compute", "backward", 3, 10),
            (0, "compute", "update", 22, 22.5),
            (1, "communication", "all: all-reduce", 20, 22),
            (1, "compute", "forward", 0, 6),
            (1, "compute", "backward", 6, 20),
            (1, "compute", "update", 22, 23),
        ],
    )


SSP = {
    0: [
        (0, "communication", "all: push", 10, 12),
        (0, "communication", "pull", 13, 15),  # 1 s at the server before
        (0, "compute", "forward", 0, 3),
        (0, "compute", "backward", 3, 10),
        (1, "communication", "all: push", 20, 22),
        (1, "communication", "pull", 23, 25),
        (1, "compute", "forward", 0, 6),
        (1, "compute", "backward", 6, 20),
    ],
    1: [
        (0, "communication", "all: push", 25, 27),
        (0, "communication", "pull", 28, 30),  # its clock is 2, worker 1's 1
        (0, "compute", "forward", 15, 18),
        (0, "compute", "backward", 18, 25),
        (1, "communication", "all: push", 45, 47),
        (1, "communication", "pull", 48, 52),  # both pull: the server's link is shared
        (1, "compute", "forward", 25, 31),
        (1, "compute", "backward", 31, 45),
    ],
    2: [
        (0, "communication", "all: push", 40, 42),
        (
            0,
            "communication",
            "pull",
            48,
            52,
        ),  # at 43 its clock would be 2 ahead: it waits until worker 1 has done its second
        (0, "compute", "forward", 30, 33),
        (0, "compute", "backward", 33, 40),
        (1, "communication", "all: push", 72, 74),
        (1, "communication", "pull", 75, 79),
        (1, "compute", "forward", 52, 58),
        (1, "compute", "backward", 58, 72),
    ],
}


@pytest.mark.parametrize("step", SSP)
def test_stale_workers_at_a_server(tiny, step):
    """SSP(1), worker 1 half as fast."""
    scenario = tiny(aggregation=ONE_SERVER, sync={"kind": "ssp", "staleness": 1}, disturbance=SLOW)
    assert_timeline(scenario, SSP[step], step)


def test_the_row_of_a_stale_worker_that_waits(tiny):
    scenario = tiny(aggregation=ONE_SERVER, sync={"kind": "ssp", "staleness": 1}, disturbance=SLOW)
    steps = run_scenario(scenario, settle=False).steps
    assert steps.straggler_wait[:, 0].tolist() == pytest.approx([0, 0, 5])
    assert steps.exposed_comm[:, 0].tolist() == pytest.approx([5, 5, 7])
    assert steps.clock_gap[:, 0].tolist() == [0, 1, 1]
    assert steps.versions[:, 0].tolist() == [
        0,
        1,
        0,
    ]  # worker 1's first update came in between at 23


def test_asynchronous_pushes_beside_the_backward_pass(tiny):
    """One worker.

    Layer 1's push from 7 to 8, layer 0's from 10 to 11; each is half a second at the server.
    """
    assert_timeline(
        tiny(1, aggregation=ONE_SERVER, sync="asp", overlap="wfbp"),
        [
            (0, "communication", "tensor1: push", 7, 8),
            (0, "communication", "tensor0: push", 10, 11),
            (0, "communication", "pull", 11.5, 13.5),
            (0, "compute", "forward", 0, 3),
            (0, "compute", "backward", 3, 7),
            (0, "compute", "backward", 7, 10),
        ],
    )


AD_PSGD = {
    "wfbp": [
        (0, "communication", "average with 1", 0, 2),
        (0, "compute", "forward", 0, 3),
        (0, "compute", "backward", 3, 10),
        (0, "compute", "update", 10, 10.5),
        (
            1,
            "communication",
            "average with 0",
            2,
            4,
        ),  # each has one communication thread, which is busy until 2
        (1, "compute", "forward", 0, 6),
        (1, "compute", "backward", 6, 20),
        (1, "compute", "update", 20, 21),
    ],
    "sequential": [
        (0, "communication", "average with 1", 10, 12),
        (0, "compute", "forward", 0, 3),
        (0, "compute", "backward", 3, 10),
        (0, "compute", "update", 12, 12.5),
        (1, "communication", "average with 0", 20, 22),  # while worker 0 computes its second step
        (1, "compute", "forward", 0, 6),
        (1, "compute", "backward", 6, 20),
        (1, "compute", "update", 22, 23),
    ],
}


@pytest.mark.parametrize("overlap", AD_PSGD)
def test_asynchronous_gossip(tiny, overlap):
    """AD-PSGD of two, worker 1 half as fast.

    Models of 2 MB are exchanged, 2 s, and nobody waits for the other's passes.
    """
    assert_timeline(
        tiny(aggregation="gossip", sync="asp", overlap=overlap, disturbance=SLOW), AD_PSGD[overlap]
    )


def test_what_others_averaged_meanwhile_is_staleness(tiny):
    """In sequence.

    Worker 1's first step, from 0 to 23, was averaged with once, at 12; worker 0's second, from 12.5
    on, at 22.
    """
    steps = simulate(tiny(aggregation="gossip", sync="asp", disturbance=SLOW)).steps
    assert steps.versions[0].tolist() == [0, 1]
    assert steps.versions[1, 0] == 1


def test_gossip_in_step_waits_for_neighbours_only(tiny):
    """A ring of six, the first slow.

    Its neighbours wait for it, the three far ones do not in this step.
    """
    slow = {"slow": [{"workers": [0], "factor": 2}]}
    steps = simulate(tiny(6, aggregation="gossip", disturbance=slow, run={"steps": 1})).steps
    waits = steps.straggler_wait[0] + steps.exposed_comm[0]
    assert waits[[1, 5]].min() > 11
    assert waits[[2, 3, 4]].max() < waits[1]


def test_only_the_requested_workers_are_shown(tiny):
    assert {each.worker for each in timeline(tiny(4), 0, workers=2)} == {0, 1}


def test_a_step_after_warm_up_is_number_0(tiny):
    (first, *_) = timeline(tiny(run={"steps": 2, "warmup": 3}))
    assert first.start == pytest.approx(3 * 12.5 + 10)


def test_input_is_a_stream(tiny):
    storage = {"kind": "storage", "bandwidth": "1 kB/s", "bytes_per_sample": "500 B"}
    found = timeline(tiny(workload={"input": storage}), 0, workers=1)
    assert [each[1:3] for each in found if each.stream == "input"] == [("input", "next batch")]


def test_a_step_that_is_not_simulated_is_refused(tiny):
    with pytest.raises(DpsimError, match="step must be from 0 to 2, but got 3"):
        timeline(tiny(), 3)
