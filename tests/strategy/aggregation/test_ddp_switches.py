"""The switches of torch's DistributedDataParallel: what each adds to a step or takes off it."""

import pytest

from dpsim import load_scenario, simulate
from dpsim.engine.memory import memory_use
from dpsim.engine.preparation import prepare
from dpsim.strategy import StrategyConfig
from dpsim.topology import Mesh
from dpsim.workload import Program, build_model

MODEL = build_model("alexnet")
MESH = Mesh(8, 4)
QUICK = ["run.steps=2", "run.warmup=0", "disturbance={}", "cluster.nodes=2"]


def calls(passes=1, **switches):
    way = {"aggregation": {"kind": "allreduce", **switches}}
    program = Program(len(MODEL.layers), passes)
    found = StrategyConfig.model_validate(way).aggregation.calls(MODEL, program, 4, MESH)
    return found, program


def scenario(*sets):
    return load_scenario("scenarios/quickstart.yaml", [*QUICK, *sets])


def allreduce(**switches):
    output = "".join(f", {name}: {str(value).lower()}" for name, value in switches.items())
    return f"strategy.aggregation={{kind: allreduce, library: ideal{output}}}"


def test_without_no_sync_each_pass_sends_all_and_waits_for_it():
    plain, _ = calls(passes=3)
    each, program = calls(passes=3, sync_each_pass=True)
    assert len(each) == 3 * len(plain)
    assert sorted({call.needed for call in each}) == [
        program.begin(1),
        program.begin(2),
        program.end,
    ]


def test_which_parameters_were_used_travels_last_with_four_bytes_each():
    found, program = calls(find_unused_parameters=True)
    *_, used = found
    assert (used.nbytes, used.ready, used.needed) == (
        4 * len(MODEL.tensors.elements),
        program.end,
        program.end,
    )


def test_a_static_graph_saves_all_that_unused_parameters_add():
    plain, _ = calls()
    assert calls(find_unused_parameters=True, static_graph=True)[0] == plain
    static = scenario(allreduce(find_unused_parameters=True, static_graph=True))
    assert simulate(static).step_time_s == simulate(scenario(allreduce())).step_time_s


def test_buckets_that_are_not_rebuilt_end_with_the_small_first_one():
    sizes = {
        unused: [
            sum(nbytes for _, nbytes in call.stages)
            for call in prepare(scenario(allreduce(find_unused_parameters=unused))).calls(0)
        ]
        for unused in (False, True)
    }
    *buckets, used = sizes[True]
    assert used == 4 * len(prepare(scenario()).model.tensors.elements)
    assert sum(buckets) == sum(sizes[False])
    assert 2**20 <= buckets[-1] < 2 * 2**20 <= buckets[0]
    assert 2**20 <= sizes[False][0] < 25 * 2**20


@pytest.mark.parametrize("batch", [1, 64])
def test_the_search_of_the_graph_is_hidden_where_the_host_is_ahead(batch):
    """With one image the host's launches set the pace, with 64 the GPU does. One worker, so that
    nothing is sent beside."""
    single = ("cluster.nodes=1", "cluster.gpus_per_node=1", f"workload.batch_per_gpu={batch}")
    compute = [
        simulate(scenario(*single, allreduce(find_unused_parameters=unused))).parts_s["compute"]
        for unused in (False, True)
    ]
    if batch == 1:
        assert 1e-5 < compute[1] - compute[0] < 1e-3
    else:
        assert compute[1] - compute[0] < 1e-6


def test_views_of_buckets_keep_gradients_once():
    copied, viewed = (
        memory_use(scenario(allreduce(gradient_as_bucket_view=view))).held for view in (False, True)
    )
    assert copied.buckets == copied.gradients == viewed.gradients
    assert viewed.buckets == 0
