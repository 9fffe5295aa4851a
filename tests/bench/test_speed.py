"""Speed and memory of rings, and of whole jobs of up to 131,072 coordinated GPUs."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from measuring import Growth, in_own_process, seconds

from dpsim import load_scenario, simulate
from dpsim.collectives import algorithm
from dpsim.network import RoundsModel
from dpsim.topology import UniformSwitch

pytestmark = pytest.mark.bench

QUICKSTART = Path(__file__).parents[2] / "scenarios" / "quickstart.yaml"
RATE, LATENCY, NBYTES = 50e9, 500e-9, 100_000_000
RANKS = (1024, 2048, 4096, 8192, 16_384)


@dataclass(frozen=True)
class UnequalSwitch(UniformSwitch):
    """A switch whose links are up to a tenth faster than ``rate``, each its own, so that no two
    ranks act alike.
    """

    @property
    def capacities(self):
        return self.rate * (1 + 0.1 * np.random.default_rng(1).random(2 * self.ranks))


SWITCHES = {"equal links": UniformSwitch, "every link its own rate": UnequalSwitch}


def own_starts(ranks):
    """When each rank starts: an exponential draw of 1 ms on average."""
    return np.random.default_rng(0).exponential(1e-3, ranks)


def ring(links, ranks):
    """A ring from nothing: the schedule, the model and one all-reduce of 100 MB with own starts."""
    network = SWITCHES[links](ranks, RATE, LATENCY)
    RoundsModel(algorithm("ring").schedule(ranks), network).finish(own_starts(ranks), NBYTES)


@pytest.mark.parametrize(
    ("links", "limits"), [("equal links", (0.01, 0.05)), ("every link its own rate", (0.1, 4))]
)
def test_a_ring_of_100_mb_with_own_starts(measured, links, limits):
    by_ranks = {
        ranks: seconds(lambda count=ranks: ring(links, count), times=5 if ranks < 4096 else 2)
        for ranks in RANKS
    }
    measured(f"ring, 100 MB, own starts, {links}", "1,024 ranks", by_ranks[1024], limit=limits[0])
    _, memory = in_own_process("test_speed", "ring", links, RANKS[-1])
    growth = Growth("ranks", by_ranks)
    scale = f"{RANKS[-1]:,} ranks"
    measured(
        f"ring, 100 MB, own starts, {links}",
        scale,
        by_ranks[RANKS[-1]],
        limit=limits[1],
        memory=memory,
        memory_limit=500,
        growth=growth,
    )


LARGE = {
    "ResNet-50, hierarchical all-reduce": [
        "cluster.node=dgx1-v100",
        "strategy.aggregation={kind: allreduce, algorithm: hierarchical}",
    ],
    # A transformer block of it is 1.7 GB of weights in bf16: gathered as one unit, and its
    # gradients scattered as one bucket.
    "Llama 2 70B, sharded (ZeRO 3, a unit a block)": [
        "cluster.node=dgx-h100",
        "workload={model: llama2-70b, batch_per_gpu: 1, precision: bf16, optimizer: adam, "
        "checkpointing: full}",
        "strategy.aggregation={kind: sharded, library: ideal, stage: 3, weight_bytes: 2, unit_size: 3 GB}",
        "strategy.overlap={kind: buckets, bucket_size: 3 GB}",
    ],
    "Llama 2 70B, sharded (ZeRO 3, small units)": [  # 1,365 collectives a step
        "cluster.node=dgx-h100",
        "workload={model: llama2-70b, batch_per_gpu: 1, precision: bf16, optimizer: adam, "
        "checkpointing: full}",
        "strategy.aggregation={kind: sharded, library: ideal, stage: 3, weight_bytes: 2}",
        "strategy.overlap={kind: buckets}",
    ],
    "Llama 2 70B, sharded (ZeRO 1)": [
        "cluster.node=dgx-h100",
        "workload={model: llama2-70b, batch_per_gpu: 1, precision: bf16, optimizer: adam, "
        "checkpointing: full}",
        "strategy.aggregation={kind: sharded, library: ideal, stage: 1, weight_bytes: 2}",
        "strategy.overlap={kind: buckets, bucket_size: 3 GB}",
        # 140 GB of weights on GPUs of 80 GB: simulated all the same.
        "run.allow_out_of_memory=true",
    ],
}


def large(name, nodes, steps, *overrides):
    """The quickstart's jitter and BSP with one of `LARGE`: from its scenario's text to its JSON."""
    sizes = [f"cluster.nodes={nodes}", f"run={{steps: {steps}, warmup: 0}}"]
    result = simulate(load_scenario(QUICKSTART, [*sizes, *LARGE[name], *overrides]))
    assert result.steps.step.shape == (steps, 8 * nodes)
    assert result.to_json()["workers"] == 8 * nodes


@pytest.mark.parametrize("name", LARGE)
def test_131072_gpus_three_steps(measured, name):
    by_gpus = {
        8 * nodes: in_own_process("test_speed", "large", name, nodes, 3)
        for nodes in (4096, 8192, 16_384)
    }
    taken, memory = by_gpus[131_072]
    growth = Growth.of_processes("GPUs", by_gpus)
    measured(
        f"{name}, 3 steps",
        "131,072 GPUs",
        taken,
        limit=20,
        memory=memory,
        memory_limit=2000,
        growth=growth,
    )


ACCUMULATING = "Llama 2 70B, sharded (ZeRO 3, a unit a block)"


@pytest.mark.parametrize(
    ("overrides", "which", "limit"),
    [
        (["strategy.aggregation.gradients.sync_each_pass=true"], "sums scattered in each", 20),
        # Whole gradients of 138 GB on GPUs of 80 GB: simulated all the same. Nodes drift apart all
        # the time, so that no pass repeats another.
        (["run.allow_out_of_memory=true"], "sums scattered at the end", 40),
    ],
)
def test_131072_gpus_of_32_passes(measured, overrides, which, limit):
    passes = "workload.gradient_accumulation=32"
    taken, memory = in_own_process(
        "test_speed", "large", ACCUMULATING, 16_384, 3, passes, *overrides
    )
    what = f"Llama 2 70B, sharded (ZeRO 3), 32 passes, {which}, 3 steps"
    measured(what, "131,072 GPUs", taken, limit=limit, memory=memory, memory_limit=2000)


@pytest.mark.parametrize(
    ("name", "limits"),
    [
        ("ResNet-50, hierarchical all-reduce", (50, 3000)),
        ("Llama 2 70B, sharded (ZeRO 3, a unit a block)", (50, 5000)),
    ],
)
def test_a_million_gpus_three_steps(measured, name, limits):
    taken, memory = in_own_process("test_speed", "large", name, 131_072, 3)
    what = f"{name}, 3 steps"
    measured(what, "1,048,576 GPUs", taken, limit=limits[0], memory=memory, memory_limit=limits[1])


def resnet(nodes, steps):
    """ResNet-50 as in the quickstart: a ring, buckets and jitter."""
    ring = "strategy.aggregation={kind: allreduce, library: ideal, algorithm: ring}"
    scenario = load_scenario(QUICKSTART, [f"cluster.nodes={nodes}", f"run.steps={steps}", ring])
    assert scenario.strategy.overlap.kind == "buckets"
    assert scenario.disturbance.jitter is not None
    return simulate(scenario)


def test_a_job_by_its_gpus_and_by_its_steps(measured):
    by_gpus = {
        8 * nodes: seconds(lambda count=nodes: resnet(count, 50), times=2)
        for nodes in (16, 32, 64, 128)
    }
    measured(
        "ResNet-50, ring, 50 steps",
        "1,024 GPUs",
        by_gpus[1024],
        limit=5,
        growth=Growth("GPUs", by_gpus),
    )
    by_steps = {
        steps: seconds(lambda count=steps: resnet(128, count), times=2)
        for steps in (50, 100, 200, 400)
    }
    measured(
        "ResNet-50, ring, 1,024 GPUs",
        "400 steps",
        by_steps[400],
        limit=20,
        growth=Growth("steps", by_steps),
    )
