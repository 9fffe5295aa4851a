"""Independent workers: contention on the network and at servers, and edge cases."""

from itertools import product

import numpy as np
import pytest
from pydantic import ValidationError

from dpsim import simulate
from dpsim.base.errors import DpsimError
from dpsim.engine import Recording, run_scenario
from dpsim.scenario import shape_of
from dpsim.strategy import StrategyConfig
from dpsim.strategy.aggregation import Coordination

SERVERS = "parameter-server"
ELSEWHERE = {"kind": SERVERS, "servers": 1, "colocated": False, "update_rate": "1 PB/s"}
PARTS = [shape_of(StrategyConfig).below(part).kinds() for part in ("aggregation", "sync")]


def accepted(aggregation, sync):
    try:
        StrategyConfig.model_validate(
            {"aggregation": {"kind": aggregation}, "sync": {"kind": sync}}
        )
    except ValidationError:
        return False
    return True


INDEPENDENT = [
    (aggregation, sync)
    for (aggregation, way), (sync, rule) in product(*(kinds.items() for kinds in PARTS))
    if way.coordination is not Coordination.COLLECTIVE
    and not rule.barrier
    and accepted(aggregation, sync)
]
EVERY_PAIR = pytest.mark.parametrize(("aggregation", "sync"), INDEPENDENT)


def cut(at, *more):
    return {"links": [{"link": "node0/nic0->switch", "at": at, "factor": 0}, *more]}


@EVERY_PAIR
def test_a_link_that_is_cut_for_good_is_an_error(tiny, aggregation, sync):
    with pytest.raises(
        DpsimError,
        match=r"disturbance.links: must leave a way for all transfers, but a cut link stops one for good",
    ):
        simulate(tiny(3, aggregation=aggregation, sync=sync, disturbance=cut("11 s")))


def test_a_link_that_comes_back_costs_the_time_it_was_away(tiny):
    """The push of worker 0, from 10 to 12, stops at 11 and goes on at 61."""
    back = {"link": "node0/nic0->switch", "at": "61 s", "factor": 1}
    steps = simulate(
        tiny(1, aggregation=ELSEWHERE, sync="asp", disturbance=cut("11 s", back))
    ).steps
    assert steps.step[:, 0] == pytest.approx([10 + 4 + 50, 14, 14], rel=1e-6)


def test_others_go_on_while_a_workers_link_is_away(tiny):
    back = {"link": "node0/nic0->switch", "at": "61 s", "factor": 1}
    steps = simulate(
        tiny(3, aggregation={**ELSEWHERE, "servers": 3}, sync="asp", disturbance=cut("11 s", back))
    ).steps
    assert steps.step[0, 0] > 60
    assert steps.step[:, 1:].max() < 20


def test_other_traffic_takes_its_share(tiny):
    """GPU 0 sends to GPU 1 all the time.

    Worker 0's push takes 4 s instead of 2 s, and so does worker 1's pull.
    """
    background = {"background": [{"source": 0, "destination": 1}]}
    plain, busy = (
        simulate(
            tiny(2, aggregation={**ELSEWHERE, "servers": 4}, sync="asp", disturbance=each)
        ).steps
        for each in ({}, background)
    )
    np.testing.assert_allclose(plain.step, 14, rtol=1e-6)
    np.testing.assert_allclose(busy.step, 16, rtol=1e-6)


@EVERY_PAIR
def test_two_workers_are_enough(tiny, aggregation, sync):
    steps = simulate(tiny(2, aggregation=aggregation, sync=sync)).steps
    assert (steps.step > 10).all()


def test_storage_feeds_each_worker_at_its_own_pace(tiny):
    """Each takes its next batch when it asks; 1 kB/s for 8 samples of 2 kB are 16 s, longer than a
    step of 14 s.
    """
    slow_disk = {
        "kind": "storage",
        "bandwidth": "1 kB/s",
        "bytes_per_sample": "2 kB",
        "prefetch": 1,
        "cpu_seconds_per_sample": 0,
    }
    settled = {"run": {"steps": 4, "warmup": 2}, "workload": {"input": slow_disk}}
    steps = simulate(tiny(2, aggregation={**ELSEWHERE, "servers": 4}, sync="asp", **settled)).steps
    np.testing.assert_allclose(steps.step, 16, rtol=1e-3)
    np.testing.assert_allclose(steps.input, 2, rtol=1e-2)


def test_input_is_a_part_of_the_step(tiny):
    disk = {"kind": "storage", "bandwidth": "1 kB/s", "bytes_per_sample": "1 kB"}
    steps = simulate(tiny(2, aggregation=SERVERS, sync="ssp", workload={"input": disk})).steps
    parts = steps.compute + steps.input + steps.encode + steps.exposed_comm + steps.straggler_wait
    np.testing.assert_allclose(parts, steps.step, rtol=1e-12)
    assert steps.input[0].min() > 7  # the first batch: 8 kB at 1 kB/s


def mixed(tiny, fast_nodes=2, slow_nodes=1):
    """Groups of two kinds of node.

    The second's GPU has a third of the bandwidth of memory, and half the peak.
    """
    node = tiny().cluster.node.model_dump(mode="json")
    half = {
        **node,
        "name": "half",
        "gpu": {**node["gpu"], "name": "half", "peak": {"fp32": "0.5 TFLOP/s"}},
    }
    nic = {"rate": "1 MB/s", "latency": 0}
    return {
        "nodes": 1,
        "node": None,
        "groups": [{"nodes": fast_nodes, "node": node}, {"nodes": slow_nodes, "node": half}],
        "network": {"fabric": "single-switch", "nic": nic, "nics_per_node": 1},
    }


@EVERY_PAIR
@pytest.mark.parametrize("overlap", ["sequential", "wfbp"])
def test_a_cluster_of_two_kinds_of_nodes(tiny, aggregation, sync, overlap):
    """AlexNet's time is computed: the slower kind computes for longer, each at its own
    pace.
    """
    workload = {"model": "alexnet", "batch_per_gpu": 16}
    steps = simulate(
        tiny(
            3,
            aggregation=aggregation,
            sync=sync,
            overlap=overlap,
            cluster=mixed(tiny),
            workload=workload,
        )
    ).steps
    assert (steps.compute[:, 0] == steps.compute[:, 1]).all()
    assert steps.compute[0, 2] > 1.5 * steps.compute[0, 0]


def test_servers_on_nodes_of_their_own_join_a_mixed_cluster(tiny):
    result = simulate(
        tiny(3, aggregation={**ELSEWHERE, "servers": 2}, sync="asp", cluster=mixed(tiny))
    )
    assert result.steps.step.shape == (3, 3)


@pytest.mark.parametrize("sync", ["bsp", "asp"])
def test_servers_need_room_on_the_fabric(tiny, sync):
    torus = {"fabric": "torus", "dims": [2, 2], "nic": {"rate": "1 MB/s", "latency": 0}}
    with pytest.raises(DpsimError, match=r"cluster with 3 nodes for servers: .*dims"):
        simulate(
            tiny(4, aggregation={**ELSEWHERE, "servers": 3}, sync=sync, cluster={"network": torus})
        )
    assert (
        simulate(
            tiny(4, aggregation=SERVERS, sync=sync, cluster={"network": torus})
        ).steps.step.min()
        > 10
    )


def test_a_single_process_has_one_node(tiny):
    with pytest.raises(
        DpsimError,
        match=r"strategy.aggregation.way: must be copies on several nodes .*'single-process' on 2 nodes",
    ):
        simulate(tiny(2, aggregation={"kind": "host", "way": "single-process"}))


def test_more_replicas_than_servers_are_refused(tiny):
    with pytest.raises(ValidationError, match="replicas must be at most the 2 servers, but got 3"):
        tiny(aggregation={"kind": SERVERS, "servers": 2, "replicas": 3})


def test_replicas_hold_up_a_push_until_the_last_of_them_has_it(tiny):
    """Two servers on their own nodes: 1 MB from each to the other, 1 s, in each of the steps."""
    one, two = (
        simulate(
            tiny(1, aggregation={**ELSEWHERE, "servers": 2, "replicas": replicas}, sync="asp")
        ).steps
        for replicas in (1, 2)
    )
    np.testing.assert_allclose(two.step - one.step, 1, rtol=1e-6)


def test_pushes_beside_the_backward_pass_are_overlapped_communication(tiny):
    """Layer 1's push hides for 1 s; layer 0's and the pull are waited for, 1 s and 2 s."""
    steps = simulate(tiny(1, aggregation=ELSEWHERE, sync="asp", overlap="wfbp")).steps
    np.testing.assert_allclose(steps.overlapped_comm, 1, rtol=1e-6)
    np.testing.assert_allclose(steps.exposed_comm, 3, rtol=1e-6)


def test_a_model_is_encoded_before_it_is_exchanged(tiny):
    """Asynchronous gossip of two, a codec that takes time.

    The first exchange begins when worker 0 or 1 has encoded.
    """
    slow_memory = tiny().cluster.node.model_dump(mode="json")
    slow_memory["gpu"]["memory_bandwidth"] = "1 MB/s"
    scenario = tiny(
        2,
        aggregation="gossip",
        sync="asp",
        overlap="wfbp",
        compression="cast",
        cluster={"node": slow_memory},
    )
    shown = run_scenario(scenario, Recording(1)).intervals()
    encoded = min(each.end for each in shown if each.name.startswith("encode"))
    assert encoded > 1
    assert min(each.start for each in shown if each.stream == "communication") == pytest.approx(
        encoded
    )


def test_progress_counts_steps_of_all_workers(tiny):
    reported = []
    simulate(tiny(3, aggregation=SERVERS, sync="asp", run={"steps": 4}), reported.append)
    assert reported == sorted(reported)
    assert (reported[0], reported[-1]) == (0, 4)


def test_a_worker_that_is_done_goes_on_as_load_for_the_others(tiny):
    """One server; worker 1 is slower by a half.

    Had worker 0 left after its steps, worker 1's last ones would be undisturbed.
    """
    slow = {"slow": [{"workers": [1], "factor": 1.5}], "jitter": {"kind": "gamma", "cv": 0.3}}
    steps = simulate(
        tiny(6, aggregation=ELSEWHERE, sync="asp", run={"steps": 20}, disturbance=slow)
    ).steps
    late, early = steps.exposed_comm[-5:, 1].mean(), steps.exposed_comm[5:10, 1].mean()
    assert late == pytest.approx(early, rel=0.5)
    assert late > 1.5 * 4  # without the others it would be 4 s
