"""Scenarios drawn from the pydantic models and the registries, so that a new kind or field is
fuzzed by being there.

A seed draws each: Hypothesis prefers small numbers and ends of ranges, so that scenarios of a
hundred fields would nearly all be refused for the first of them.
"""

from __future__ import annotations

import types
from collections.abc import Callable
from math import isfinite
from random import Random
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from annotated_types import Ge, Gt, Le, Lt
from pydantic import BaseModel, WithJsonSchema
from pydantic.fields import FieldInfo

from dpsim.base.units import DIMENSIONS, RATE, TIME, Dimension
from dpsim.disturbance import BackgroundConfig, LinkChangeConfig, SlowWorkersConfig
from dpsim.hardware import Gpu, Link, Node, gpus, links, nodes
from dpsim.hardware.calibration import CalibrationProfile, Transport
from dpsim.scenario import CostConfig, RunConfig, Scenario
from dpsim.scenario.schema import MeasuredStep
from dpsim.scenario.shape import fields_of
from dpsim.scenario.sweep import ParameterConfig, SweepConfig
from dpsim.topology import ClusterConfig
from dpsim.topology.config import NodeGroup
from dpsim.topology.fabrics.custom import CustomConfig, CustomEdge
from dpsim.workload import MODELS, WorkloadConfig
from dpsim.workload.dataset import DatasetConfig
from dpsim.workload.models import Images

IMAGES = [name for name in MODELS if isinstance(MODELS[name], Images)]
CATALOGUES: dict[type[BaseModel], Any] = {Gpu: gpus, Link: links, Node: nodes}

# What no field asks for: numbers beyond what machines hold, text that is none, things of the wrong
# shape.
ODD: tuple[Any, ...] = (
    *(
        None,
        True,
        False,
        "",
        "x",
        " ",
        "auto",
        "none",
        "null",
        [],
        {},
        [[]],
        {"kind": None},
        {"kind": "x"},
        [None],
        [0, -1],
    ),
    *(
        0,
        -1,
        1,
        2,
        7,
        2**31 - 1,
        2**31,
        2**53 + 1,
        2**63 - 1,
        2**63,
        2**64,
        10**18,
        10**30,
        10**399,
        -(10**399),
    ),
    *(
        0.5,
        -0.5,
        1e-9,
        1e9,
        1e15,
        1e300,
        1e308,
        -1e308,
        5e-324,
        float("nan"),
        float("inf"),
        float("-inf"),
    ),
    *(
        "1e400",
        "nan",
        "inf s",
        "1e999 s",
        "1e308 s",
        "1e308 GB",
        "5e-324 s",
        "1e-300 GB/s",
        "1 bit/s",
        "1e15 B/s",
        "1 PB/s",
    ),
    *(
        "-1 s",
        "0 s",
        "0 B",
        "0 B/s",
        "-0.0 GB/s",
        "1e-30 s",
        "1e30 s",
        "1e30 B",
        "1e18 s",
        "1 s/s",
        "1 B s",
        "25 Gb",
        "1,5 s",
    ),
    *(
        "../../etc/passwd",
        "/etc/passwd",
        "/dev/zero",
        "/dev/null",
        "..",
        ".",
        "a\x00b",
        "a.json",
        "a.yaml",
        "/proc/self/mem",
    ),
    *(
        "x" * 5000,
        "9" * 5000,
        "é" * 99,
        "\u202e",
        "\ud800",
        "😀",
        "\ufeff",
        "!!python/object:os.system",
    ),
    *("*a", "&a", "<<", "%s%n{0}"),
)
MAGNITUDES = {
    "s": (-7, 2),
    "B": (3, 10),
    "B/s": (6, 11),
    "FLOP": (6, 13),
    "FLOP/s": (10, 15),
    "W": (1, 4),
}


class Generator:
    """Draws values for fields.

    ``odd`` is the chance of one that its field does not ask for, ``extreme`` of a legal extreme.
    """

    def __init__(self, random: Random) -> None:
        self.random = random
        self.odd = random.choice((0.0, 0.0, 0.0, 0.0, 0.003, 0.02))
        self.extreme = random.choice((0.0, 0.02, 0.02, 0.1))
        self.more = random.choice((0.1, 0.25, 0.5))  # the chance of a field that may be left out

    def chance(self, share: float) -> bool:
        """Whether something happens that does in ``share`` of all cases."""
        return self.random.random() < share

    def scenario(self) -> dict[str, Any]:
        """A whole scenario; few steps, and not several descriptions of one cluster, but now and
        then.
        """
        scenario = self.mapping(Scenario)
        run, cluster = scenario.setdefault("run", {}), scenario.get("cluster")
        if isinstance(run, dict) and not self.chance(0.01):
            run.update(steps=self.random.randint(1, 4), warmup=self.random.randint(0, 2))
        if isinstance(run, dict) and self.chance(0.85):
            run["allow_out_of_memory"] = True
        if isinstance(cluster, dict) and "groups" in cluster and not self.chance(0.05):
            for plain in ("node", "nodes", "gpu", "gpus_per_node"):
                cluster.pop(plain, None)
        if isinstance(cluster, dict) and "node" in cluster and not self.chance(0.2):
            cluster.setdefault("gpus_per_node", self.random.choice((1, 1, 1, 2)))
        _repair(scenario.get("workload"), scenario.get("disturbance"))
        if not self.chance(0.02):
            scenario.pop("testbed" if self.chance(0.8) else "cluster", None)
        return scenario

    def mapping(self, model: type[BaseModel]) -> Any:
        """A mapping for ``model``: what it requires, and some of the rest."""
        if model in CATALOGUES:
            return self.entry(model)
        found = {}
        for name, field in fields_of(model).items():
            needed = field.is_required() or get_origin(field.annotation) is Literal
            if self.chance(1 - self.odd if needed else ALWAYS.get((model, name), self.more)):
                found[name] = self.value(model, name)
        return found

    def entry(self, model: type[BaseModel]) -> Any:
        """A name of the catalogue, written this way or that, or an entry of it with some fields
        changed.
        """
        catalogue = CATALOGUES[model]()
        name = self.random.choice(list(catalogue))
        if self.chance(0.93):
            return name if self.chance(0.9) else name.upper().replace("-", "_")
        entry = catalogue[name].model_dump(mode="json")
        for field in self.random.sample(list(fields_of(model)), self.random.randint(0, 2)):
            entry[field] = self.value(model, field)
        return entry

    def value(self, model: type[BaseModel], name: str) -> Any:
        """A value for one field: such as it takes, and rarely another."""
        if self.chance(self.odd):
            return self.random.choice(ODD)
        field = fields_of(model)[name]
        hint = HINTS.get((model, name))
        if hint is not None and not self.chance(self.extreme):
            return hint(self)
        return self.annotated(field.annotation, tuple(field.metadata))

    def annotated(self, annotation: Any, metadata: tuple[Any, ...] = ()) -> Any:
        """A value that an annotation allows, with the limits in its metadata."""
        while get_origin(annotation) is Annotated:
            annotation, *more = get_args(annotation)
            metadata += tuple(
                each
                for one in more
                for each in (one.metadata if isinstance(one, FieldInfo) else (one,))
            )
        quantity = _dimension(metadata)
        if quantity is not None:
            return self.quantity(quantity)
        origin, arguments = get_origin(annotation), get_args(annotation)
        if origin in (Union, types.UnionType):
            some = (
                [one for one in arguments if one is not types.NoneType]
                if not self.chance(0.05)
                else arguments
            )
            return self.annotated(self.random.choice(some))
        if origin is Literal:
            return self.random.choice(arguments)
        if origin is tuple:
            each = (
                [arguments[0]] * self.random.randint(1, 3)
                if arguments[-1] is Ellipsis
                else arguments
            )
            return [self.annotated(one) for one in each]
        return self._held(annotation, metadata)

    def _held(self, annotation: Any, metadata: tuple[Any, ...]) -> Any:
        """A value of a plain type: a mapping, a model's or a free one, or a scalar."""
        origin, arguments = get_origin(annotation), get_args(annotation)
        if origin is dict:
            return {
                str(self.annotated(arguments[0])): self.annotated(arguments[1])
                for _ in range(self.random.randint(1, 2))
            }
        if isinstance(annotation, type) and issubclass(annotation, BaseModel):
            return self.mapping(annotation)
        return self.scalar(annotation, metadata)

    def scalar(self, kind: Any, metadata: tuple[Any, ...]) -> Any:
        """Text, a number or a truth value."""
        if kind is str:
            return self.random.choice(
                ["a", "gpu0", "x y", "9", "model.json", "node.yaml", "m.py:f", "é"]
            )
        if kind is int:
            return self.integer(*_bounds(metadata))
        if kind is float:
            return self.number(*_bounds(metadata))
        return self.random.choice((True, False)) if kind is bool else None

    def integer(self, low: float | None, high: float | None) -> int:
        """A small one; now and then a limit, one past it, or a large one."""
        edges = [
            int(edge) + step for edge in (low, high) if edge is not None for step in (0, 0, 1, -1)
        ]
        if self.chance(self.extreme):
            return self.random.choice([64, 100, 1024, 10**4, 10**6, 10**9, 2**31, 10**15, *edges])
        least = int(low or 0) + (1 if low == 0 and self.chance(0.7) else 0)
        return self.random.randint(
            least, max(least, min(least + 7, int(high) if high is not None else least + 7))
        )

    def number(self, low: float | None, high: float | None) -> float:
        """One between the limits, also across magnitudes; now and then a limit or a very large or
        small one.
        """
        edges = [edge for edge in (low, high) if edge is not None]
        if self.chance(self.extreme):
            return self.random.choice([0.0, 1.0, 1e-300, 1e300, 1e-9, 1e9, *edges])
        least, most = low or 0.0, min(10.0, high) if high is not None else 10.0
        return (
            self.random.uniform(least, most)
            if self.chance(0.7)
            else most - (most - least) * 10 ** self.random.uniform(-9, 0)
        )

    def quantity(self, dimension: Dimension) -> Any:
        """Text such as ``3.2e-05 s``: of a usual size, rarely of any, rarely zero."""
        if self.chance(self.extreme):
            rare = f"{self.random.uniform(1, 9.99):.3g}e{self.random.randint(-40, 40)} {dimension.symbol}"
            bound = f"{self.random.choice((0.125, 1, 1e15))!r} {dimension.symbol}"
            return self.random.choice([rare, bound, f"0 {dimension.symbol}", 0])
        low, high = MAGNITUDES[dimension.symbol]
        return f"{self.random.uniform(1, 9.99):.3g}e{self.random.randint(low, high)} {dimension.symbol}"


def _repair(workload: Any, disturbance: Any) -> None:
    """Take out what would refuse most scenarios.

    A length of text for images, both or neither of two ways to name slow workers.
    """
    if isinstance(workload, dict) and str(workload.get("model")) in IMAGES:
        workload.pop("sequence_length", None)
    slow = disturbance.get("slow") if isinstance(disturbance, dict) else None
    for one in slow if isinstance(slow, list) else ():
        if isinstance(one, dict) and "fraction" in one:
            one.pop("workers", None)
        elif isinstance(one, dict):
            one.setdefault("workers", [0])
            one.pop("per", None)


def _bounds(metadata: tuple[Any, ...]) -> tuple[float | None, float | None]:
    """The least and the largest value that the constraints name, whether allowed or only just
    not.
    """
    lows = [
        one.ge if isinstance(one, Ge) else one.gt for one in metadata if isinstance(one, (Ge, Gt))
    ]
    highs = [
        one.le if isinstance(one, Le) else one.lt for one in metadata if isinstance(one, (Le, Lt))
    ]
    low, high = (
        next((float(edge) for edge in edges if isfinite(edge)), None) for edges in (lows, highs)
    )  # type: ignore[arg-type]
    return low, high


def _dimension(metadata: tuple[Any, ...]) -> Dimension | None:
    """What quantity a field holds, told by the example in its schema."""
    shown = next((one.json_schema for one in metadata if isinstance(one, WithJsonSchema)), None)
    examples = [
        example for one in (shown or {}).get("anyOf", ()) for example in one.get("examples", ())
    ]
    return next((dimension for dimension in DIMENSIONS if dimension.example in examples), None)


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
    (ClusterConfig, "node"): 1.0,
    (ClusterConfig, "nodes"): 1.0,
    (ClusterConfig, "groups"): 0.08,
    (CustomConfig, "graphml"): 0.02,
    (CustomConfig, "edges"): 1.0,
    (CalibrationProfile, "measured"): 0.0,
    (RunConfig, "steps"): 1.0,
}
