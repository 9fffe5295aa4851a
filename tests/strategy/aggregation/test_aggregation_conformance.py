"""What every way to aggregate keeps, by parametrisation over all kinds."""

import numpy as np
import pytest

from dpsim import simulate
from dpsim.engine.preparation import prepare
from dpsim.strategy import StrategyConfig
from dpsim.topology import Mesh
from dpsim.workload import Program, build_model
from tools.combinations_page import kinds_of

KINDS = kinds_of("aggregation")
WAYS = [
    *({"kind": kind} for kind in KINDS),
    *({"kind": "sharded", "stage": stage} for stage in (1, 2)),
    {"kind": "parameter-server", "colocated": False},
    {"kind": "parameter-server", "servers": 2, "replicas": 2},
    *({"kind": "gossip", "graph": graph} for graph in ("exponential", "random-pairs", "torus")),
    *(
        {"kind": "allreduce", "algorithm": algorithm}
        for algorithm in ("tree", "butterfly", "halving-doubling")
    ),
]
EVERY_WAY = pytest.mark.parametrize(
    "way", WAYS, ids=lambda way: "-".join(str(value) for value in way.values())
)
MODEL = build_model("alexnet")
PROGRAM = Program(len(MODEL.layers))
MESH = Mesh(8, 4)
END = PROGRAM.end


def aggregation(way):
    return StrategyConfig.model_validate({"aggregation": way}).aggregation


@pytest.mark.parametrize("kind", KINDS)
def test_a_name_is_enough(kind):
    assert aggregation({"kind": kind}).kind == kind


@EVERY_WAY
def test_operations_are_ready_before_they_are_needed_and_have_names_of_their_own(way):
    calls = aggregation(way).calls(MODEL, PROGRAM, batch=4, mesh=MESH)
    assert len({call.name for call in calls}) == len(calls) > 0
    for call in calls:
        assert 0 <= call.ready <= call.needed <= END
        assert call.nbytes > 0


@EVERY_WAY
def test_gradients_of_every_tensor_travel_once_and_not_before_they_are_computed(way):
    """Where gradients travel at all: gossip exchanges whole models in their place."""
    calls = [
        call
        for call in aggregation(way).calls(MODEL, PROGRAM, batch=4, mesh=MESH)
        if call.payload == "gradients"
    ]
    tensors = MODEL.tensors
    if way["kind"] == "gossip":
        (model,) = aggregation(way).calls(MODEL, PROGRAM, batch=4, mesh=MESH)
        assert (model.payload, model.nbytes) == ("models", MODEL.parameters * 4)
    else:
        assert [call.nbytes for call in calls] == (4 * tensors.elements[::-1]).tolist()
        assert [call.ready for call in calls] == (END - tensors.layer[::-1]).tolist()


@EVERY_WAY
def test_an_average_of_models_is_the_whole_model_after_the_update(way):
    (call,) = aggregation(way).averaging(MODEL, PROGRAM)
    assert (call.payload, call.nbytes, call.ready) == (
        "models",
        MODEL.parameters * 4,
        END + 1,
    )


@EVERY_WAY
@pytest.mark.parametrize("workers", [2, 5])
def test_every_stage_has_its_collective_which_ends_after_it_begins(tiny, way, workers):
    job = prepare(tiny(workers, 1e-3, aggregation=way))
    starts = np.linspace(1, 2, workers)
    for call in job.calls(0):
        for name, nbytes in call.stages:
            model = job.collective(name)
            assert (model.finish(starts, nbytes).finishes >= starts).all()
            assert model.traffic(nbytes).total > 0


@EVERY_WAY
def test_twice_the_bandwidth_is_at_most_half_the_communication_and_never_more(tiny, way):
    """All times on the wire are bytes over bandwidth here; what servers and hosts add up is not."""

    def exposed(rate):
        nic = {"fabric": "single-switch", "nic": {"rate": rate, "latency": 0}, "nics_per_node": 1}
        return simulate(tiny(4, aggregation=way, cluster={"network": nic})).parts_s["exposed_comm"]

    one, two = exposed("1 MB/s"), exposed("2 MB/s")
    assert 0.5 * one * (1 - 1e-9) <= two <= 0.51 * one


@EVERY_WAY
def test_the_start_costs_at_least_the_weights_for_whoever_lacks_them(tiny, way):
    """2 MB of weights and as much of momentum leave rank 0, or 2 MB come from the servers; nothing
    for a single worker.
    """
    assert simulate(tiny(4, 1e-3, aggregation=way)).one_time.startup_s >= 2 * 3 / 4
    assert simulate(tiny(1, 1e-3, aggregation={"kind": "allreduce"})).one_time.startup_s == 0
