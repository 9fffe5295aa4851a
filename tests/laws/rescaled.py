"""A scenario of faster machines: all of them k times as fast, or only the links."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Annotated, Any, get_args, get_origin

from pydantic import BaseModel, WithJsonSchema

from dpsim.base.units import DIMENSIONS, RATE, Dimension, parse
from dpsim.hardware import Gpu
from dpsim.scenario import Scenario
from dpsim.scenario.shape import fields_of
from dpsim.topology import ClusterConfig


def rescaled(scenario: Scenario, k: float) -> Scenario:
    """The same scenario in which all that has a second in its unit is ``k`` times as fast.

    A measured model is written anew beside its file.
    """
    content = _scaled(scenario, k)
    model = content["workload"]["model"]
    if isinstance(model, dict):
        model["profile"] = _faster_profile(Path(model["profile"]), k)
    content.pop("testbed", None)
    return Scenario.model_validate(content)


def faster_links(scenario: Scenario, k: float) -> Scenario:
    """The same scenario in which all links of the cluster have ``k`` times their rate."""
    content = scenario.model_dump(mode="json")
    content.pop("testbed", None)
    return Scenario.model_validate({**content, "cluster": with_faster_links(scenario.cluster, k)})


def with_faster_links(cluster: ClusterConfig, k: float) -> dict[str, Any]:
    """The content of a cluster whose links have ``k`` times their rate, and GPUs their own."""
    return _scaled(cluster, k, only_links=True)


def as_fast(cluster: ClusterConfig, k: float) -> dict[str, Any]:
    """The content of a cluster that is ``k`` times as fast in all."""
    return _scaled(cluster, k)


def _scaled(model: BaseModel, k: float, *, only_links: bool = False) -> dict[str, Any]:
    """The plain content of a model, every field of it written out."""
    plain = model.model_dump(mode="json")
    if only_links and isinstance(model, Gpu):
        return plain
    for name, field in fields_of(type(model)).items():
        attribute = next(key for key, one in type(model).model_fields.items() if one is field)
        key = name if name in plain else attribute
        dimension = _dimension(field.annotation, tuple(field.metadata))
        if only_links and dimension is not RATE:
            dimension = None
        below = partial(_scaled, k=k, only_links=only_links)
        plain[key] = _value(getattr(model, attribute), plain[key], dimension, k, below)
    return plain


def _value(
    value: Any,
    plain: Any,
    dimension: Dimension | None,
    k: float,
    below: Callable[[BaseModel], dict[str, Any]],
) -> Any:
    if isinstance(value, BaseModel):
        return below(value)
    if isinstance(value, Mapping):
        return {key: _value(value[key], plain[key], dimension, k, below) for key in plain}
    if isinstance(value, list | tuple):
        pairs = zip(value, plain, strict=True)
        return [_value(one, other, dimension, k, below) for one, other in pairs]
    if dimension is None or value is None or isinstance(plain, bool):
        return plain
    seconds = dimension.powers.time
    si = plain if isinstance(plain, int | float) else parse(plain, dimension)
    return f"{si * k**-seconds!r} {dimension.symbol}"


def _dimension(annotation: Any, metadata: tuple[Any, ...] = ()) -> Dimension | None:
    """What a field measures, from the example in its schema, in it or in a part of it."""
    if get_origin(annotation) is Annotated:
        annotation, *more = get_args(annotation)
        metadata += tuple(more)
    for one in metadata:
        if isinstance(one, WithJsonSchema):
            examples = [
                example
                for each in (one.json_schema or {}).get("anyOf", ())
                for example in each.get("examples", ())
            ]
            found = next((each for each in DIMENSIONS if each.example in examples), None)
            if found is not None:
                return found
    parts = (_dimension(part) for part in get_args(annotation))
    return next((part for part in parts if part is not None), None)


def _faster_profile(path: Path, k: float) -> str:
    profile = json.loads(path.read_text())
    measured = profile["measured"]
    for times in ("forward_s", "backward_s", "gradient_ready_s"):
        measured[times] = [[one / k for one in row] for row in measured.get(times) or ()]
    measured["optimizer_s"] = [one / k for one in measured.get("optimizer_s") or ()]
    faster = path.with_name(f"{path.stem}-{k:g}.json")
    faster.write_text(json.dumps(profile))
    return str(faster)
