"""What the types of fields do not say: texts that are languages of their own, sizes that decide how
long a case takes, and how often a field is given.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel

from dpsim.base.units import RATE, TIME
from dpsim.disturbance import SlowWorkersConfig
from dpsim.disturbance.config import BackgroundConfig, LinkChangeConfig
from dpsim.hardware.calibration import CalibrationProfile, Transport
from dpsim.scenario import CostConfig, RunConfig, Scenario
from dpsim.scenario.schema import MeasuredStep
from dpsim.scenario.sweep import ParameterConfig, SweepConfig
from dpsim.topology import ClusterConfig
from dpsim.topology.config import NodeGroup
from dpsim.topology.fabrics.custom import CustomConfig
from dpsim.topology.fabrics.edge import CustomEdge
from dpsim.workload import MODELS, WorkloadConfig
from dpsim.workload.dataset import DatasetConfig

if TYPE_CHECKING:
    from hostile_values import Generator


def _one_of(*values: Any) -> Callable[[Generator], Any]:
    return lambda generator: generator.random.choice(values)


def _count(*often: int) -> Callable[[Generator], int]:
    return lambda generator: generator.random.choice(often)


def _edges(generator: Generator) -> Any:
    """The edges of a custom network, mostly a switch that joins all cards."""
    star = {
        "between": ["node*/nic*", "hub"],
        "rate": generator.quantity(RATE),
        "latency": generator.quantity(TIME),
    }
    others = [generator.mapping(CustomEdge) for _ in range(generator.random.choice((0, 0, 1, 2)))]
    return [star, *others] if generator.chance(0.9) else others


def _profile(generator: Generator) -> Any:
    """A calibration profile of a transport, with some of its parameters."""
    names = generator.random.sample(list(Transport.model_fields), generator.random.randint(1, 5))
    values = {name: {"value": generator.value(Transport, name), "unit": "1"} for name in names}
    errors = dict.fromkeys(("median_ape", "mean_ape", "p95_ape", "worst_ape"), 0.1)
    residuals = {"counted_on": "fitted rows", "n": 1, "worst_bytes": 1, **errors}
    return {"name": "p", "kind": "transport", "parameters": values, "residuals": residuals}


def _parameters(generator: Generator) -> Any:
    """What a sweep varies."""
    paths = (
        "cluster.nodes",
        "workload.batch_per_gpu",
        "strategy.sync.kind",
        "run.seed",
        "name",
        "x",
        "cluster.network.nic",
        "run",
    )
    values = (
        {"values": [1, 2]},
        {"values": ["ssp", "bsp"]},
        {"values": [{}]},
        {"values": [None, 10**399]},
    )
    return {
        generator.random.choice(paths): generator.random.choice(
            (*values, generator.mapping(ParameterConfig))
        )
        for _ in range(generator.random.randint(1, 2))
    }


_SMALL = (1, 1, 2, 2, 2, 3, 3, 4, 4, 5, 8)
_ENDS = (
    "node0/nic0",
    "node1/nic0",
    "node*/nic0",
    "node*/nic*",
    "a",
    "b",
    "port0",
    "node9/nic9",
    "*",
    "",
)
_LINKS = (
    "*",
    "node0/*",
    "*nic0*",
    "node0/gpu0->*",
    "*->*",
    "x",
    "node1/nic0->*",
    "*leaf*",
    "[",
    "node0/nic0->switch",
    "*nic0->*",
)

# Fields whose text is a language of its own, or whose size decides how long a case takes.
HINTS: dict[tuple[type[BaseModel], str], Callable[[Generator], Any]] = {
    (WorkloadConfig, "model"): _one_of(*MODELS),
    (WorkloadConfig, "batch_per_gpu"): _count(1, 1, 2, 4, 8, 8, 32, 64),
    (WorkloadConfig, "checkpointing"): _one_of(
        "none", "full", "every 4 layers", "every 999999 layers"
    ),
    (WorkloadConfig, "precision"): _one_of(*("fp32",) * 12, "fp16", "bf16", "tf32", "fp8"),
    (DatasetConfig, "samples"): _count(10**4, 10**6, 1_281_167),
    (CostConfig, "currency"): _one_of("EUR"),
    (WorkloadConfig, "sequence_length"): _one_of(1, 16, 128, 512),
    (ClusterConfig, "nodes"): _count(*_SMALL),
    (ClusterConfig, "gpus_per_node"): _count(1, 1, 1, 2, 4, 8),
    (NodeGroup, "nodes"): _count(1, 1, 2, 3),
    (NodeGroup, "gpus_per_node"): _count(1, 1, 2, 4),
    (MeasuredStep, "nodes"): _count(1, 1, 2),
    (MeasuredStep, "step_time"): _one_of("1 s", "0.5 s", "100 s", "1 us"),
    (SlowWorkersConfig, "workers"): _one_of([0], [0, 1], [3]),
    (BackgroundConfig, "source"): _count(0, 0, 1),
    (BackgroundConfig, "destination"): _count(1, 2, 3),
    (CustomConfig, "edges"): _edges,
    (CustomConfig, "graphml"): _one_of(None),
    (CustomEdge, "between"): lambda generator: [
        generator.random.choice(_ENDS),
        generator.random.choice(_ENDS),
    ],
    (LinkChangeConfig, "link"): _one_of(*_LINKS),
    (Scenario, "calibration"): lambda generator: generator.random.choice(
        (
            "catalogue",
            _profile(generator),
            generator.mapping(MeasuredStep),
            {"compute_scale": 0.5, "source": "x"},
        )
    ),
    (SweepConfig, "parameters"): _parameters,
}
ALWAYS = {
    # Either stands for the other: with both, passes must come out even.
    (WorkloadConfig, "batch_per_gpu"): 0.97,
    (WorkloadConfig, "global_batch"): 0.03,
    (Scenario, "strategy"): 0.8,
    (Scenario, "sweep"): 0.02,
    (Scenario, "calibration"): 0.08,
    (Scenario, "testbed"): 1.0,
    (WorkloadConfig, "utilisation"): 0.02,
    (WorkloadConfig, "checkpointing"): 0.1,
    # Few clusters and models can share statistics.
    (WorkloadConfig, "sync_batch_norm"): 0.03,
    (ClusterConfig, "node"): 1.0,
    (ClusterConfig, "nodes"): 1.0,
    (ClusterConfig, "groups"): 0.08,
    (CustomConfig, "graphml"): 0.02,
    (CustomConfig, "edges"): 1.0,
    (CalibrationProfile, "measured"): 0.0,
    (RunConfig, "steps"): 1.0,
}
