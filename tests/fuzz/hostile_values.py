"""Scenarios drawn from the pydantic models and the registries, so that a new kind or field is
fuzzed by being there.

A seed draws each: Hypothesis prefers small numbers and ends of ranges, so that scenarios of a
hundred fields would nearly all be refused for the first of them.
"""

from __future__ import annotations

import types
from math import isfinite
from random import Random
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from annotated_types import Ge, Gt, Le, Lt
from hostile_hints import ALWAYS, HINTS
from odd_values import ODD
from pydantic import BaseModel, WithJsonSchema
from pydantic.fields import FieldInfo

from dpsim.base.kinds import Kinds
from dpsim.base.units import DIMENSIONS, Dimension
from dpsim.hardware import Gpu, Link, Node, gpus, links, nodes
from dpsim.scenario import Scenario
from dpsim.scenario.shape import fields_of
from dpsim.workload import MODELS
from dpsim.workload.models import Images

IMAGES = [name for name in MODELS if isinstance(MODELS[name], Images)]
CATALOGUES: dict[type[BaseModel], Any] = {Gpu: gpus, Link: links, Node: nodes}

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
        kinds = next((one for one in metadata if isinstance(one, Kinds)), None)
        if kinds is not None:
            return self.mapping(self.random.choice(list(kinds.models().values())))
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
    """What quantity a field holds, from the example in its schema."""
    shown = next((one.json_schema for one in metadata if isinstance(one, WithJsonSchema)), None)
    examples = [
        example for one in (shown or {}).get("anyOf", ()) for example in one.get("examples", ())
    ]
    return next((dimension for dimension in DIMENSIONS if dimension.example in examples), None)
