"""The parts of emulation that need no ranks.

Waits, places of ranks, what is refused, and the account of what was noted.
"""

import time
from concurrent.futures import ThreadPoolExecutor
from importlib.util import find_spec
from types import SimpleNamespace

import numpy as np
import pytest

pytestmark = pytest.mark.torch

if find_spec("torch"):
    from dpsim.base.errors import DpsimError
    from dpsim.strategy.sync import DROPPED
    from validate.emulate import Case, check, placement
    from validate.emulate.clock import Pace, sleep_until
    from validate.emulate.program import emulate
    from validate.emulate.push_pull import rotate, share
    from validate.emulate.ranks import account, collective_seconds
    from validate.emulate.servers import Server


def test_waits_do_not_add_up_their_lateness():
    pace = Pace(time.monotonic())
    begin = pace.at
    pace.spend(0.01)
    time.sleep(0.005)  # something that took time meanwhile
    pace.spend(0.01)
    assert pace.at == pytest.approx(begin + 0.02)
    assert time.monotonic() >= pace.at


def test_a_time_that_has_passed_is_not_waited_for(monkeypatch):
    slept = []
    monkeypatch.setattr(time, "sleep", slept.append)
    sleep_until(time.monotonic() - 1)
    assert slept == []


@pytest.mark.parametrize(
    ("sets", "hosts"),
    [
        ([], (0, 1)),
        (["strategy.aggregation.kind=parameter-server"], (0, 1, 0, 1)),
        (
            ["strategy.aggregation={kind: parameter-server, servers: 3, colocated: false}"],
            (0, 1, 2, 3, 4),
        ),
    ],
)
def test_workers_come_first_and_servers_share_their_hosts_or_have_their_own(brief, sets, hosts):
    assert placement(Case(brief, tuple(sets)).scenario()).hosts == hosts


@pytest.mark.parametrize(
    ("sets", "message"),
    [
        (
            ["strategy.aggregation={kind: allreduce, library: mpi}"],
            "library: must be ideal or auto or gloo",
        ),
        (["strategy.aggregation={kind: parameter-server, replicas: 2}"], "replicas: must be 1"),
        (
            [
                "testbed=null",
                "cluster={nodes: 2, node: dgx1-v100}",
                "strategy.aggregation={kind: host}",
            ],
            "must have one GPU",
        ),
        (["disturbance.background=[{source: 0, destination: 1}]"], "background: must be left out"),
        (["testbed=null", "cluster={nodes: 1, node: dgx-a100}"], "must have one GPU"),
    ],
)
def test_what_ranks_cannot_do_is_refused_with_its_key(brief, sets, message):
    job = Case(brief, tuple(sets)).job()
    with pytest.raises(DpsimError, match=message):
        check(job)


def _rows(ends, waits, **more):
    step = {"begin": 0.0, "done": 0.0, "encode": 0.0, "input": 0.0, **more}
    return [
        {**step, "step": number, "end": end, "waits": wait}
        for number, (end, wait) in enumerate(zip(ends, waits, strict=True))
    ]


@pytest.mark.parametrize(
    ("sets", "message"),
    [
        ((), r"must have 2 ranks \(2 workers\), but got 3"),
        (
            ("strategy.aggregation={kind: parameter-server, servers: 2, colocated: false}",),
            r"must have 4 ranks \(2 workers and 2 servers\), but got 3",
        ),
    ],
)
def test_the_wrong_number_of_ranks_is_an_error_that_says_which(brief, sets, message):
    with pytest.raises(DpsimError, match=message):
        emulate(Case(brief, sets).job(), SimpleNamespace(size=3), 0, print)


def test_waiting_until_the_last_has_come_is_its_fault_and_the_rest_the_networks(brief):
    """Both are done with passes at 3 and 5, and have the message at 9.

    Worker 0 waits 2 s for worker 1 and 4 s for the network.
    """
    job = Case(brief).job()
    rows = [_rows([10.0], [[[3.0, 9.0]]]), _rows([10.0], [[[5.0, 9.0]]])]
    carried = [
        [{"step": 0, "message": "all", "stamps": [[3.0, 9.0]]}],
        [{"step": 0, "message": "all", "stamps": [[5.0, 9.0]]}],
    ]
    steps = account(job, rows, carried, 1, 0.0)
    assert steps.straggler_wait.tolist() == [[2.0, 0.0]]
    assert steps.exposed_comm.tolist() == [[4.0, 4.0]]
    assert steps.compute.tolist() == [[4.0, 6.0]]
    assert steps.step.tolist() == [[10.0, 10.0]]
    assert steps.overlapped_comm.tolist() == [[0.0, 0.0]]
    assert collective_seconds(carried, 0, 1) == {"all": 5.0}


def test_only_steps_that_all_workers_have_ended_count(brief):
    job = Case(brief).job()
    rows = [_rows([1.0, 2.0], [[], []]), _rows([1.0], [[]])]
    assert account(job, rows, [[], []], 2, 0.0).step.tolist() == [[1.0, 1.0]]
    assert account(job, [rows[0], []], [[], []], 2, 0.0).step.shape == (0, 2)


def test_the_clock_gap_counts_what_had_been_handed_over_when_an_iteration_began(brief):
    job = Case(
        brief, ("strategy.aggregation.kind=parameter-server", "strategy.sync.kind=asp")
    ).job()
    independent_workers = {"exposed_comm": 0.0, "straggler_wait": 0.0, "busy": 0.0, "versions": 0}
    fast = [
        {**row, "begin": float(n), "passed": n + 1.0}
        for n, row in enumerate(_rows([1.0, 2.0, 3.0], [[]] * 3, **independent_workers))
    ]
    slow = [
        {**row, "begin": 5.0 * n, "passed": 5.0 * n + 5}
        for n, row in enumerate(_rows([5.0, 10.0, 15.0], [[]] * 3, **independent_workers))
    ]
    assert account(job, [fast, slow], [[], []], 3, 0.0).clock_gap.T.tolist() == [
        [0, 1, 2],
        [0, 0, 0],
    ]


def test_shares_cover_a_payload_and_each_begins_elsewhere():
    assert (share(10, 3), share(0, 3)) == (4, 1)
    assert rotate(range(3), 1) == [1, 2, 0]
    assert rotate(range(3), 5) == [2, 0, 1]


def test_a_backup_server_drops_what_comes_after_the_quorum(brief):
    server = Server(
        Case(
            brief, ("strategy.aggregation.kind=parameter-server", "strategy.sync.kind=backup")
        ).job()
    )
    server.keeper.hand_over(0)
    server.keeper.hand_over(1)
    assert server.release(0) == (0, 1)
    assert server.release(1) == (DROPPED, 1)


def test_an_ssp_server_holds_who_is_too_far_ahead(brief):
    sets = ("strategy.aggregation.kind=parameter-server", "strategy.sync={kind: ssp, staleness: 1}")
    server = Server(Case(brief, sets).job())
    server.keeper.hand_over(0)
    assert server.release(0) == (0, 1)
    server.keeper.hand_over(0)
    with ThreadPoolExecutor(1) as threads:
        held = threads.submit(server.release, 0)
        with pytest.raises(TimeoutError):
            held.result(timeout=0.05)
        server.keeper.leave(1)
        assert held.result() == (0, 2)


def test_typical_steps_are_those_of_the_median_repetition():
    from dpsim.engine.steps import Steps
    from validate.run import typical

    def steps(*compute):
        made = Steps.empty(len(compute), 2)
        made.compute[:] = np.array(compute)[:, None] * [1, 1]
        made.versions[:] = int(compute[0])
        return made

    found = typical([steps(1.0, 9.0), steps(3.0, 1.0), steps(2.0, 2.0)], independent_workers=False)
    assert found.compute.tolist() == [[2.0, 2.0], [2.0, 2.0]]
    assert found.versions.tolist() == [[2, 2], [2, 2]]
