"""``library: auto``: NCCL where it serves the GPUs and has the algorithm, else the algorithm alone."""

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
    ("asked", "same_as"),
    [
        ({}, {"library": "nccl"}),
        ({"algorithm": "ring"}, {"library": "nccl", "algorithm": "ring"}),
        ({"algorithm": "in-network"}, {"library": "nccl", "algorithm": "in-network"}),
        ({"algorithm": "swing"}, {"library": "ideal", "algorithm": "swing"}),
    ],
)
def test_an_all_reduce_is_nccls_where_it_has_the_algorithm(asked, same_as):
    kind = {"kind": "allreduce"}
    result = run({**kind, "library": "auto", **asked})
    assert mean(result) == step({**kind, **same_as})
    said = [note for note in result.notes if note.startswith("library auto is ")]
    assert len(said) == 1
    assert said[0].startswith(f"library auto is {same_as['library']}: ")


def test_without_nvidias_gpus_it_is_a_ring_alone():
    ring = {"kind": "allreduce", "library": "ideal"}
    result = run({**ring, "library": "auto"}, node="tpu-v3")
    assert mean(result) == step(ring, node="tpu-v3")
    assert "must have NVIDIA GPUs" in result.notes[-1]


def test_other_traffic_and_a_network_model_are_for_no_library():
    auto, alone = ({"kind": "allreduce", "library": name} for name in ("auto", "ideal"))
    flows = {"run": {"steps": 2, "warmup": 1, "network_model": "flows"}}
    assert step(auto, **flows) == step(alone, **flows)


def test_sharding_is_nccls_too_in_groups_as_well():
    for group in ("all", "node"):
        auto, nccl = (
            {"kind": "sharded", "shard_group": group, "library": name} for name in ("auto", "nccl")
        )
        assert step(auto) == step(nccl)
