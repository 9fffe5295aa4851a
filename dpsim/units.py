"""Quantities with units: ``"25 Gbit/s"``, ``"1.5 us"``, ``"100 MiB"`` to and from SI floats (seconds, bytes, FLOP).

The registry is private and small, because pint's own reads ``Gb`` as gilbert: here ``b`` and ``bit`` are bits, ``B`` is a
byte, k/M/G/T/P are powers of 1000 and Ki/Mi/Gi/Ti powers of 1024. Amounts of data are bytes inside, rates bytes per second.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import cache, lru_cache
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import BeforeValidator, Field, PlainSerializer, WithJsonSchema

from dpsim.errors import DpsimError

if TYPE_CHECKING:
    from pint import UnitRegistry

_DEFINITIONS = (
    "kilo- = 1e3 = k-",
    "mega- = 1e6 = M-",
    "giga- = 1e9 = G-",
    "tera- = 1e12 = T-",
    "peta- = 1e15 = P-",
    "milli- = 1e-3 = m-",
    "micro- = 1e-6 = µ- = u-",
    "nano- = 1e-9 = n-",
    "kibi- = 1024 = Ki-",
    "mebi- = 1048576 = Mi-",
    "gibi- = 1073741824 = Gi-",
    "tebi- = 1099511627776 = Ti-",
    "byte = [data] = B",
    "bit = byte / 8 = b",
    "second = [time] = s",
    "minute = 60 * second = min",
    "hour = 3600 * second = h",
    "FLOP = [operation] = FLOP = flop",
    "watt = [power] = W",
    "joule = watt * second = J",
)


@dataclass(frozen=True, slots=True)
class Dimension:
    """What a quantity measures: its name in messages, its SI unit as pint knows it and as people write it, and an example."""

    name: str
    unit: str
    symbol: str
    example: str


TIME = Dimension("a time", "second", "s", "1.5 us")
DATA = Dimension("an amount of data", "byte", "B", "25 MiB")
RATE = Dimension("a data rate", "byte / second", "B/s", "25 Gbit/s")
OPERATIONS = Dimension("a number of operations", "FLOP", "FLOP", "4.1 GFLOP")
SPEED = Dimension("a compute rate", "FLOP / second", "FLOP/s", "15.7 TFLOP/s")
POWER = Dimension("a power", "watt", "W", "300 W")
DIMENSIONS = (TIME, DATA, RATE, OPERATIONS, SPEED, POWER)


@cache
def _registry() -> UnitRegistry[Any]:
    import pint  # slow to import: only when the first quantity is read

    registry: UnitRegistry[Any] = pint.UnitRegistry(None)
    for definition in _DEFINITIONS:
        registry.define(definition)
    return registry


# A number, then one unit or one unit per another: no arithmetic, so that text cannot ask for endless work.
_QUANTITY = re.compile(r"\s*([+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d{1,3})?)\s*([A-Za-zµ]+(?:\s*/\s*[A-Za-zµ]+)?)\s*")


@lru_cache(maxsize=4096)
def parse(text: str, dimension: Dimension) -> float:
    """The SI value of ``text`` in ``dimension``: ``parse("25 Gbit/s", RATE)`` is 3.125e9.

    Raises DpsimError when ``text`` is not a number with a unit of that dimension, or is not finite.
    """
    wrong = f"must be {dimension.name} with its unit, such as {dimension.example!r}, but got {text[:64]!r}"
    match = _QUANTITY.fullmatch(text) if len(text) <= 64 else None
    if match is None:
        raise DpsimError(f"{wrong}, which has no unit" if _is_number(text) else wrong)
    number, unit = match.groups()
    factor = _factor(unit, dimension, wrong)
    # Exact until the last rounding: "500 ns" is 5e-07 and "4.1 GFLOP" 4.1e9, the nearest floats.
    try:
        return float(Fraction(number) * (Fraction(factor) if factor >= 1 else 1 / Fraction(round(1 / factor))))
    except OverflowError:
        raise DpsimError(f"must be finite, but got {text!r}") from None


def _factor(unit: str, dimension: Dimension, wrong: str) -> float:
    """SI units in one ``unit``; raises DpsimError, beginning with ``wrong``, where it is none of ``dimension``."""
    import pint

    try:
        return float(_registry().Quantity(1, unit).to(dimension.unit).magnitude)
    except pint.DimensionalityError:
        quantity = _registry().Quantity(1, unit)
        what = next((f", which is {d.name}" for d in DIMENSIONS if quantity.is_compatible_with(d.unit)), "")
        raise DpsimError(wrong + what) from None
    except pint.UndefinedUnitError:
        raise DpsimError(f"{wrong}, whose unit {unit!r} is not known") from None


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def to_si(value: object, dimension: Dimension) -> float:
    """SI float of a field's value: text with a unit, or a plain zero (which needs none). Raises DpsimError."""
    if isinstance(value, str):
        return parse(value, dimension)
    if isinstance(value, (int, float)) and not isinstance(value, bool) and value == 0:
        return 0.0
    raise DpsimError(f"must be {dimension.name} with its unit, such as {dimension.example!r}, but got {value!r}, which has no unit")


def exact(value: float, dimension: Dimension) -> str:
    """``value`` as text that reads back to the very same float: ``exact(3.125e9, RATE)`` is ``"3125000000.0 B/s"``."""
    return f"{float(value)!r} {dimension.symbol}"


_PREFIXES = ((1e15, "P"), (1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"), (1.0, ""), (1e-3, "m"), (1e-6, "us"), (1e-9, "n"))


def human(value: float, dimension: Dimension, digits: int = 4) -> str:
    """``value`` for people, with a decimal prefix: ``human(0.0123, TIME)`` is ``"12.3 ms"``; times above 1000 s stay in s."""
    if value == 0 or not math.isfinite(value):
        return f"{value:g} {dimension.symbol}"
    smallest = 1e-9 if dimension is TIME else 1.0
    largest = 1.0 if dimension is TIME else 1e15
    for factor, prefix in _PREFIXES:
        if smallest <= factor <= largest and (abs(value) >= factor * (1 - 1e-12) or factor == smallest):
            return f"{value / factor:.{digits}g} {prefix.rstrip('s')}{dimension.symbol}"
    raise AssertionError("every finite value has a prefix")


def _quantity(dimension: Dimension) -> Any:
    def read(value: object) -> float:
        return to_si(value, dimension)

    def write(value: object) -> object:
        return exact(value, dimension) if isinstance(value, float) else value  # in a union the value may be another member's

    schema = {"type": "string", "description": f"{dimension.name} with its unit", "examples": [dimension.example]}
    reader: Callable[[object], float] = read
    return (
        BeforeValidator(reader),
        PlainSerializer(write, when_used="json"),
        WithJsonSchema({"anyOf": [schema, {"const": 0}]}, mode="validation"),
    )


# Field types of scenarios and catalogue entries: text with a unit in the file, an SI float inside.
Seconds = Annotated[float, *_quantity(TIME), Field(ge=0)]
PositiveSeconds = Annotated[float, *_quantity(TIME), Field(gt=0)]
Bytes = Annotated[float, *_quantity(DATA), Field(ge=0)]
PositiveBytes = Annotated[float, *_quantity(DATA), Field(gt=0)]
BytesPerSecond = Annotated[float, *_quantity(RATE), Field(gt=0)]
FlopPerSecond = Annotated[float, *_quantity(SPEED), Field(gt=0)]
Watts = Annotated[float, *_quantity(POWER), Field(ge=0)]
