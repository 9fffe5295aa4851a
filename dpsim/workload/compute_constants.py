"""The fitted compute constants of a model on a GPU, by precision and software.

Each constant is a product over parts, such as the precision, the GPU's generation and the software
tier (`PARTS`). ``compute_law.yaml`` holds them with their errors; ``python -m
tools.refits.compute_refit`` fits them to published steps and writes that file.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from functools import cache
from importlib.resources import files
from typing import Any

from dpsim.base.errors import DpsimError
from dpsim.base.shipped import shipped_yaml
from dpsim.workload.layer import Model
from dpsim.workload.software import Software

# On these generations, frameworks compute half precision at the rate of fp32.
WITHOUT_TENSOR_CORES = ("kepler", "maxwell", "pascal")
_SHARES = {"conv", "product", "recurrent", "attention", "memory"}
_LEAST_SHARE = 1e-9
NARROW = ("fp8", "nvfp4")
_HALF = ("fp16", "bf16", *NARROW)
NEWEST_KERNELS = "2024"
_REFERENCE_KERNELS = "2023"  # the year whose factors are 1


@dataclass(frozen=True, slots=True)
class Constants:
    """Compute constants of one GPU in one precision, with one software.

    - ``conv``, ``product``, ``recurrent``, ``attention``: shares of peak that these layers reach.
    - ``winograd``: factor of multiplications saved in fp32 3x3 convolutions of stride 1 (2.25 with
      tiles of 2x2 outputs, 4 with 4x4: Lavin and Gray 2016, arXiv:1509.09308).
    - ``fp8``, ``nvfp4``: factors on the speed of linear layers inside blocks in these precisions;
      their casts move ``casts`` times the layers' traffic.
    - ``memory``: share of the memory's bandwidth.
    - ``inner_ramp``, ``head_ramp``: lengths (terms); ``ramp``: seconds per kernel.
    - ``elementwise``, ``loss``, ``transposed``: factors on traffic.
    - ``launch``: the host's seconds per kernel; ``update_kernels``: kernels of an update per state
      of a tensor; ``tensor_kernels``: kernels of statistics per gradient tensor.
    - ``step``: exposed seconds per step; ``script``: seconds of a script that feeds samples itself.
    - ``wire``: bytes that the memory moves per payload byte communicated during a pass;
      ``copies``: factor on the copies of strategies.
    - ``throttle``: share of the clock that a board of at most 75 W sustains; ``clock_power``:
      exponent of speed by power; ``watts``: power per peak FLOP/s of the measured board.
    """

    conv: float = 1.0
    product: float = 1.0
    recurrent: float = 1.0
    attention: float = 1.0
    winograd: float = 1.0
    fp8: float = 1.0
    nvfp4: float = 1.0
    casts: float = 0.0
    memory: float = 1.0
    inner_ramp: float = 0.0
    head_ramp: float = 0.0
    ramp: float = 0.0
    elementwise: float = 1.0
    loss: float = 1.0
    transposed: float = 0.0
    launch: float = 0.0
    update_kernels: float = 0.0
    step: float = 0.0
    script: float = 0.0
    tensor_kernels: float = 0.0
    wire: float = 0.0
    copies: float = 1.0
    throttle: float = 1.0
    clock_power: float = 0.0
    watts: float = 1.0

    def measured(self, found: Mapping[str, float], precision: str) -> Constants:
        """Return the constants with measured values, such as ``product`` or ``product_half``.

        Raises DpsimError for a share so small that steps would never end.
        """
        family, known = precision_family(precision), set(CONSTANTS)
        suffixes = {f"_{each}" for each in (family, precision)}
        own = {name: value for name, value in found.items() if name in known}
        for name, value in found.items():
            bare, _, end = name.rpartition("_")
            if bare in known and f"_{end}" in suffixes:
                own[bare] = value
        for name in _SHARES & own.keys():
            if own[name] < _LEAST_SHARE:
                raise DpsimError(
                    f"calibration: constants.{name}: value must be at least {_LEAST_SHARE:g}, but "
                    f"got {own[name]:g}"
                )
        if "conv" in own:
            own.setdefault("winograd", 1.0)
        return replace(self, **own)


CONSTANTS = tuple(field.name for field in fields(Constants))


def precision_family(precision: str) -> str:
    """Return ``half`` for precisions of at most two bytes, else the precision itself."""
    return "half" if precision in _HALF else precision


def members_of(model: Model, generation: str, precision: str, software: Software) -> dict[str, str]:
    """Return the entry that applies in each part of ``compute_law.yaml``."""
    family = precision_family(precision)
    fused_attention = family == "half" and any(layer.head for layer in model.layers)
    year = software.kernels if fused_attention else _REFERENCE_KERNELS
    eager, tier = software.is_eager, software.tier
    casts = "eager half" if family == "half" else "eager"
    # Other tiers have norms and positions in one kernel each.
    plain = tier in ("reference", "typical") or software.kernels == NEWEST_KERNELS
    shape = "other"
    if eager and tier != "mlperf" and family == "half":
        attends = any(layer.kind == "attention" for layer in model.layers)
        if attends and not fused_attention and tier != "tuned":
            shape = "unfused attention"
        # RMS norms have no bias, unlike batch and layer norms.
        elif (
            fused_attention
            and plain
            and any(layer.kind == "norm" and len(layer.parameters) < 2 for layer in model.layers)
        ):
            shape = "rms"
    return {
        "shared": "every",
        "precision": family,
        "generations": measured_generation(generation),
        "cores": measured_generation(generation) if precision == "fp32" else "matrix units",
        "fusion": casts if eager else "compiled",
        "execution": software.execution,
        "software": tier,
        "optimizer_kernels": software.optimizer_kernels,
        "kernels": year,
        # A compiler fuses operations that the kernels of a given year do not.
        "unfused": year if eager else _REFERENCE_KERNELS,
        "shapes": shape,
        "statistics": software.gradient_statistics,
    }


def composed(
    values: Mapping[str, Mapping[str, Mapping[str, Any]]], members: Mapping[str, str]
) -> dict[str, Any]:
    """Return each constant as the product of its values over all parts, for these members."""
    found: dict[str, Any] = {}
    for part, member in members.items():
        for name, value in values[part].get(member, {}).items():
            found[name] = found.get(name, 1.0) * value
    return found


def constants_for(model: Model, generation: str, precision: str, software: Software) -> Constants:
    """Return the fitted constants of a model on a generation of GPUs.

    An unmeasured generation uses the constants of a measured one.
    """
    members = members_of(model, generation, precision, software)
    return _composed(tuple(members.items()))


@cache
def _composed(members: tuple[tuple[str, str], ...]) -> Constants:
    found = composed(_values(), dict(members))
    return constants_from(found)


def constants_from(found: Mapping[str, Any]) -> Constants:
    """Return `composed` values as constants; ``products`` multiplies all shares of products."""
    values = dict(found)
    products = values.pop("products", 1.0)
    for name in ("conv", "product", "recurrent"):
        if name in values:
            values[name] = values[name] * products
    return Constants(**values)


@cache
def _values() -> dict[str, dict[str, dict[str, float]]]:
    content = constants_file()
    return {
        part: {
            member: {name: float(entry["value"]) for name, entry in table.items()}
            for member, table in content[part].items()
        }
        for part in PARTS
    }


PARTS = (
    "shared",
    "precision",
    "generations",
    "cores",
    "fusion",
    "execution",
    "software",
    "optimizer_kernels",
    "kernels",
    "unfused",
    "shapes",
    "statistics",
)


@cache
def constants_file() -> dict[str, Any]:
    """Return ``compute_law.yaml``: each constant's value, relative standard error and meaning."""
    loaded: dict[str, Any] = shipped_yaml(files("dpsim.workload") / "compute_law.yaml")
    return loaded


def forget_constants() -> None:
    """Clear the caches, so that ``compute_law.yaml`` is read again."""
    for kept in (constants_file, _values, _composed):
        kept.cache_clear()


def measured_generation(generation: str) -> str:
    """Return the generation whose measurements apply to this one: itself if it was measured."""
    content = constants_file()
    if generation in content["generations"]:
        return generation
    found: str = content["extrapolated"].get(generation, content["extrapolated"]["other"])
    return found
