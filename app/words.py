"""Display names of fields and kinds of a scenario, of its parts, and of its changes."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import cache, reduce
from typing import Any

from app.reading import document, scenario
from app.spec import Spec
from dpsim.base.units import DATA, human
from dpsim.scenario import Scenario, shape_of
from dpsim.strategy import StrategyConfig

# Fields whose names say too little, or are abbreviations.
_FIELDS = {
    "allow_out_of_memory": "allow out of memory",
    "batch_per_gpu": "batch per GPU",
    "cpu_seconds_per_sample": "CPU time per sample (s)",
    "cv": "coefficient of variation",
    "dims": "nodes along each dimension",
    "duplex": "full-duplex efficiency",
    "gpu": "GPU",
    "gpus_per_node": "GPUs per node",
    "in_network_reduction": "in-network reduction",
    "k": "ports per switch (k)",
    "learners_per_gpu": "learners per GPU",
    "limit_all_gathers": "limit gathers in flight",
    "network_model": "network model",
    "nic": "network card",
    "nics_per_node": "network cards per node",
    "optimizer": "optimiser",
    "optimizer_kernels": "optimiser kernels",
    "power_per_gpu": "power per GPU",
    "price_per_gpu_hour": "price per GPU and hour",
    "pue": "PUE",
    "sigma": "spread (sigma)",
    "waiting_power": "power while waiting (share)",
}
# First words of links' names that are spelt differently.
_DEVICES = {
    "c2c": "C2C",
    "efa": "EFA",
    "ib": "InfiniBand",
    "nvlink": "NVLink",
    "roce": "RoCE",
    "slingshot": "Slingshot",
}
_MOST_CHANGES = 4  # that are listed individually
# A field in an error message: ``strategy.aggregation.shard_group: must divide ...``.
_REFUSED = re.compile(r"^(?:[a-z_]+\.)+([a-z_]+): (?=must )")
_OPTION = re.compile(r"^--set .*?: (?=[a-z_.]+: )")  # of a command line, not the user's


def field_words(name: str) -> str:
    """Return ``batch per GPU`` for ``batch_per_gpu``."""
    return _FIELDS.get(name, name.replace("_", " "))


def path_words(path: str, *, with_part: bool = False) -> str:
    """Return ``seed`` for ``run.seed``, ``sync`` for ``strategy.sync.kind``.

    ``with_part``: a field after its part, ``run: seed``.
    """
    above, _, name = path.rpartition(".")
    part = field_words(above.rpartition(".")[2])
    if part and (name == "kind" or path == "calibration.name"):
        return part
    return f"{part}: {field_words(name)}" if with_part else field_words(name)


def kind_words(kind: str) -> str:
    """Return ``parameter servers`` for ``parameter-server``."""
    return _labels().get(kind, kind)


@cache
def _labels() -> dict[str, str]:
    """Return the display names of a strategy's kinds, for kinds that have one."""
    parts = map(shape_of(StrategyConfig).below, StrategyConfig.model_fields)
    models = {kind: model for part in parts for kind, model in part.kinds().items()}
    labels = {kind: getattr(model, "label", "") for kind, model in models.items()}
    return {"memory": "GPU memory", **{kind: label for kind, label in labels.items() if label}}


def choice_words(option: str) -> str:
    """Return ``step time s`` for ``step_time_s``, ``BSP`` for ``bsp``."""
    return kind_words(option).replace("_", " ")


def reason_words(reason: str) -> str:
    """Return ``shard group must divide the 8 workers`` for the error message of that field."""
    return _REFUSED.sub(lambda found: f"{field_words(found[1])} ", _OPTION.sub("", reason))


def of_capacity(held: float, capacity: float) -> str:
    """Return ``12.4 of 16.9 GB``, or ``8.79 PB of 16.9 GB`` where the units differ."""
    (number, unit), has = human(held, DATA, 3).split(), human(capacity, DATA, 3)
    return f"{number} of {has}" if has.endswith(f" {unit}") else f"{number} {unit} of {has}"


def nodes_words(nodes: str) -> str:
    """Return ``4 nodes`` for ``4``."""
    return f"{nodes} node" if nodes == "1" else f"{nodes} nodes"


def device_words(name: str) -> str:
    """Return ``25 GbE`` for ``ethernet-25g``, ``V100-SXM2-16GB`` for ``v100-sxm2-16gb``."""
    first, _, rest = name.partition("-")
    if first == "ethernet":
        return f"{rest.removesuffix('g')} GbE"
    return f"{_DEVICES[first]} {rest.upper()}" if first in _DEVICES else name.upper()


def described(given: Scenario) -> str:
    """Return in a line the machines, batch and strategy, which a scenario's title leaves out."""
    parts, strategy = given.cluster.parts, given.strategy
    # Parts may have different nodes and the same GPUs: name each once.
    gpus = dict.fromkeys(device_words(part.accelerator.name) for part in parts)
    where = f"{', '.join(gpus)} in {nodes_words(f'{sum(part.nodes for part in parts):,}')}"
    how = f"{kind_words(strategy.aggregation.kind)}, {kind_words(strategy.sync.kind)}"
    return f"{where}; {given.workload.samples_per_gpu:,} samples a GPU and step; {how}"


def changes(before: Spec, after: Spec) -> str:
    """Return the differences of two scenarios: ``nodes 4 to 64, network card 25GbE to 100GbE``.

    Only the first few of many differences. Raises DpsimError if one of them is invalid.
    """
    found = [f"{field} {old} to {new}" for field, (old, new) in differing((before, after))]
    more = len(found) - _MOST_CHANGES
    return ", ".join(found[:_MOST_CHANGES]) + (f" and {more} more" if more > 0 else "")


def differing(specs: Sequence[Spec]) -> list[tuple[str, list[str]]]:
    """Return each field in which ``specs`` differ, with its value in each.

    Raises DpsimError if one of them is invalid.
    """
    every = [_leaves(document(spec).plain()) for spec in specs]
    scenarios = [scenario(spec) for spec in specs]
    found = []
    for path in dict.fromkeys(path for leaves in every for path in leaves):
        values = [
            _value(leaves[path]) if path in leaves else _default(given, path)
            for leaves, given in zip(every, scenarios, strict=True)
        ]
        if len(set(values)) > 1 and _is_users_change(path, every[0]):
            found.append((path_words(".".join(path)), values))
    return found


def _default(given: Any, path: tuple[str, ...]) -> str:
    """Return the value that a scenario has at a path that its text leaves out, if it is short."""
    value = reduce(lambda held, name: getattr(held, name, None), path, given)
    return _value(value) if isinstance(value, (str, int)) else "default"


def _is_users_change(path: tuple[str, ...], old: Mapping[tuple[str, ...], Any]) -> bool:
    """Return whether the user made the change of the value at ``path``."""
    if path[0] == "calibration":
        # A fitted factor replaces the measured step without changing compute times.
        return path[1:] == ("name",) or (path[-1] == "compute_scale" and path in old)
    return path != ("name",)


def _leaves(value: Any, path: tuple[str, ...] = ()) -> dict[tuple[str, ...], Any]:
    """Return every single value of a mapping by its path."""
    if not isinstance(value, dict):
        return {path: value}
    found: dict[tuple[str, ...], Any] = {}
    for key, below in value.items():
        found |= _leaves(below, (*path, str(key)))
    return found


def _value(value: Any) -> str:
    if value is None or value == []:
        return "none"
    return kind_words(str(value))
