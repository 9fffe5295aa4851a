"""``library: auto``: NCCL where it serves the GPUs and has the algorithm, else ideal links."""

import pytest

from dpsim import Scenario, simulate

NETWORK = {"fabric": "single-switch", "nic": "ib-ndr"}


def run(aggregation, node="dgx-h100", **more):
    return simulate(
        Scenario.model_validate(
            {
                "name": "t",
                "cluster": {"nodes": 2, "node": node, "network": NETWORK},
                "workload": {"model": "resnet50", "batch_per_gpu": 8, "input": {"kind": "memory"}},
                "strategy": {"aggregation": aggregation},
                "run": {"steps": 2, "warmup": 1},
                **more,
            }
        )
    )


def mean(result):
    return result.to_json()["step_time_s"]["mean"]


def step(aggregation, **more):
    return mean(run(aggregation, **more))


@pytest.mark.parametrize(
    ("requested", "same_as"),
    [
        ({}, {"library": "nccl"}),
        ({"algorithm": "ring"}, {"library": "nccl", "algorithm": "ring"}),
        ({"algorithm": "in-network"}, {"library": "nccl", "algorithm": "in-network"}),
        ({"algorithm": "swing"}, {"library": "ideal", "algorithm": "swing"}),
    ],
)
def test_an_all_reduce_is_nccls_where_it_has_the_algorithm(requested, same_as):
    kind = {"kind": "allreduce"}
    result = run({**kind, **requested})
    assert mean(result) == mean(run({**kind, **requested, "library": "auto"}))
    assert mean(result) == step({**kind, **same_as})
    (chosen,) = result.libraries
    assert chosen.library == same_as["library"]
    assert chosen.why.startswith("auto: ")
    assert result.to_json()["libraries"] == [{"library": chosen.library, "why": chosen.why}]


def test_a_requested_library_is_reported_too():
    result = run({"kind": "allreduce", "library": "ideal"})
    (chosen,) = result.libraries
    assert (chosen.library, chosen.why) == ("ideal", "as asked for")


def test_requested_ideal_links_give_a_warning_on_gpus_with_a_library():
    def warned(aggregation, **more):
        output = run(aggregation, **more).to_json()["warnings"]
        return [
            each for each in output if each.startswith("library ideal on GPUs that nccl serves")
        ]

    ideal = {"kind": "allreduce", "library": "ideal"}
    assert len(warned(ideal)) == 1
    assert warned({"kind": "allreduce", "algorithm": "swing"}) == []
    assert warned({"kind": "allreduce"}) == []
    assert warned(ideal, node="tpu-v3") == []


@pytest.mark.parametrize(
    ("node", "library", "algorithm"),
    [("tpu-v3", "ideal", "ring"), ("mi300x-8gpu", "nccl", "auto")],
)
def test_without_a_gpu_library_it_is_a_ring(node, library, algorithm):
    result = run({"kind": "allreduce"}, node=node)
    named = {"kind": "allreduce", "library": library, "algorithm": algorithm}
    assert mean(result) == step(named, node=node)
    (chosen,) = result.libraries
    assert chosen.library == library
    assert ("must have GPUs of NVIDIA or AMD" in chosen.why) == (library == "ideal")


def test_switches_of_the_fabric_that_are_to_reduce_are_not_nccls():
    cluster = {"nodes": 2, "node": "dgx-h100", "network": {**NETWORK, "in_network_reduction": True}}
    reduced = {"kind": "allreduce", "algorithm": "in-network"}
    result = run(reduced, cluster=cluster)
    assert [each.library for each in result.libraries] == ["ideal"]
    assert mean(result) == step({**reduced, "library": "ideal"}, cluster=cluster)


def test_other_traffic_and_a_network_model_are_for_no_library():
    auto, single = ({"kind": "allreduce", "library": name} for name in ("auto", "ideal"))
    flows = {"run": {"steps": 2, "warmup": 1, "network_model": "flows"}}
    assert step(auto, **flows) == step(single, **flows)
    (chosen,) = run(auto, **flows).libraries
    assert chosen.why == "auto: the network model is to be flows"


def test_sharding_is_nccls_too_in_groups_as_well():
    for group in ("all", "node"):
        auto, nccl = (
            {"kind": "sharded", "shard_group": group, "library": name} for name in ("auto", "nccl")
        )
        assert step(auto) == step(nccl)
