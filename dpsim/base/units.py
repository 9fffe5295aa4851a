"""Quantities with units.

``"25 Gbit/s"``, ``"1.5 us"``, ``"100 MiB"`` to and from SI floats (seconds, bytes, FLOP).

``b`` and ``bit`` are bits, ``B`` is a byte, k/M/G/T/P are powers of 1000 and Ki/Mi/Gi/Ti powers of
1024. Amounts of data are bytes inside, rates bytes per second. Datasheets' ``Gbps`` is Gbit/s and
``TFLOPS`` TFLOP/s. The few units are listed in a table here, because a library of all units takes
longer to import than a small scenario to simulate, and reads ``Gb`` as gilbert.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Annotated, Any, NamedTuple

from pydantic import BeforeValidator, Field, PlainSerializer, WithJsonSchema

from dpsim.base.errors import DpsimError


class Powers(NamedTuple):
    """The composition of a unit: the powers of a byte, a second, a FLOP and a watt."""

    data: int = 0
    time: int = 0
    operation: int = 0
    power: int = 0

    def per(self, other: Powers) -> Powers:
        """Return the powers of this unit divided by ``other``."""
        return Powers(*(mine - its for mine, its in zip(self, other, strict=True)))


_PREFIXES = {
    **dict.fromkeys(("kilo", "k"), Fraction(10**3)),
    **dict.fromkeys(("mega", "M"), Fraction(10**6)),
    **dict.fromkeys(("giga", "G"), Fraction(10**9)),
    **dict.fromkeys(("tera", "T"), Fraction(10**12)),
    **dict.fromkeys(("peta", "P"), Fraction(10**15)),
    **dict.fromkeys(("milli", "m"), Fraction(1, 10**3)),
    **dict.fromkeys(("micro", "µ", "u"), Fraction(1, 10**6)),
    **dict.fromkeys(("nano", "n"), Fraction(1, 10**9)),
    **dict.fromkeys(("kibi", "Ki"), Fraction(2**10)),
    **dict.fromkeys(("mebi", "Mi"), Fraction(2**20)),
    **dict.fromkeys(("gibi", "Gi"), Fraction(2**30)),
    **dict.fromkeys(("tebi", "Ti"), Fraction(2**40)),
}
_UNITS = {
    **dict.fromkeys(("byte", "bytes", "B"), (Fraction(1), Powers(data=1))),
    **dict.fromkeys(("bit", "bits", "b"), (Fraction(1, 8), Powers(data=1))),
    **dict.fromkeys(("second", "seconds", "s"), (Fraction(1), Powers(time=1))),
    **dict.fromkeys(("minute", "minutes", "min"), (Fraction(60), Powers(time=1))),
    **dict.fromkeys(("hour", "hours", "h"), (Fraction(3600), Powers(time=1))),
    **dict.fromkeys(("day", "days", "d"), (Fraction(86_400), Powers(time=1))),
    **dict.fromkeys(("FLOP", "FLOPs", "flop", "flops"), (Fraction(1), Powers(operation=1))),
    **dict.fromkeys(("watt", "watts", "W"), (Fraction(1), Powers(power=1))),
    **dict.fromkeys(("joule", "joules", "J"), (Fraction(1), Powers(power=1, time=1))),
    # As datasheets write rates.
    "bps": (Fraction(1, 8), Powers(data=1, time=-1)),
    "Bps": (Fraction(1), Powers(data=1, time=-1)),
    "FLOPS": (Fraction(1), Powers(operation=1, time=-1)),
}


@dataclass(frozen=True, slots=True)
class Dimension:
    """The dimension of a quantity: its name in messages, its SI unit, and an example.

    ``powers`` is the composition of the unit. A field's quantity is 0 or, in absolute value, from
    ``least`` to ``most`` SI units: far beyond real values, but such that results neither overflow
    nor vanish.
    """

    name: str
    powers: Powers
    symbol: str
    example: str
    least: float
    most: float


TIME = Dimension("a time", Powers(time=1), "s", "1.5 us", 1e-18, 1e12)
DATA = Dimension("an amount of data", Powers(data=1), "B", "25 MiB", 1e-3, 1e21)
RATE = Dimension("a data rate", Powers(data=1, time=-1), "B/s", "25 Gbit/s", 1e-3, 1e18)
OPERATIONS = Dimension(
    "a number of operations", Powers(operation=1), "FLOP", "4.1 GFLOP", 1e-3, 1e30
)
SPEED = Dimension(
    "a compute rate", Powers(operation=1, time=-1), "FLOP/s", "15.7 TFLOP/s", 1e-3, 1e24
)
POWER = Dimension("a power", Powers(power=1), "W", "300 W", 1e-9, 1e12)
DIMENSIONS = (TIME, DATA, RATE, OPERATIONS, SPEED, POWER)


# A number, then one unit or one unit per another. No arithmetic, so that text cannot cause endless
# work.
_QUANTITY = re.compile(
    r"\s*([+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d{1,3})?)\s*([A-Za-zµ]+(?:\s*/\s*[A-Za-zµ]+)?)\s*"
)


@lru_cache(maxsize=4096)
def parse(text: str, dimension: Dimension) -> float:
    """Return the SI value of ``text`` in ``dimension``: ``parse("25 Gbit/s", RATE)`` is 3.125e9.

    Raises DpsimError when ``text`` is not a number with a unit of that dimension, or is not finite.
    """
    message = (
        f"must be {dimension.name} with its unit, such as {dimension.example!r}, "
        f"but got {text[:64]!r}"
    )
    match = _QUANTITY.fullmatch(text) if len(text) <= 64 else None
    if match is None:
        raise DpsimError(f"{message}, which has no unit" if _is_number(text) else message)
    number, unit = match.groups()
    factor = _factor(unit, dimension, message)
    # Exact until the last rounding: "500 ns" is 5e-07 and "4.1 GFLOP" 4.1e9, the nearest floats.
    try:
        return float(Fraction(number) * factor)
    except OverflowError:
        raise DpsimError(f"must be finite, but got {text!r}") from None


def _factor(unit: str, dimension: Dimension, wrong: str) -> Fraction:
    """Return the SI units in one ``unit``.

    Raises DpsimError, beginning with ``wrong``, if it is not a unit of ``dimension``.
    """
    found = [_unit(part.strip()) for part in unit.split("/")]
    known = [part for part in found if part is not None]
    if len(known) < len(found):
        raise DpsimError(f"{wrong}, whose unit {unit!r} is not known")
    factor, powers = known[0]
    for other, its in known[1:]:
        factor, powers = factor / other, powers.per(its)
    if powers != dimension.powers:
        what = next((f", which is {d.name}" for d in DIMENSIONS if powers == d.powers), "")
        raise DpsimError(wrong + what)
    return factor


def _unit(text: str) -> tuple[Fraction, Powers] | None:
    """Return the SI units in one unit without a slash, and its composition.

    It may have a prefix. None if it is not known.
    """
    if text in _UNITS:
        return _UNITS[text]
    for length in range(1, len(text)):
        if text[:length] in _PREFIXES and text[length:] in _UNITS:
            factor, powers = _UNITS[text[length:]]
            return _PREFIXES[text[:length]] * factor, powers
    return None


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def to_si(value: object, dimension: Dimension) -> float:
    """Return the SI float of a field's value: text with a unit, or a plain zero (without one).

    Raises DpsimError.
    """
    if isinstance(value, str):
        return parse(value, dimension)
    # False equals 0 in Python, but is not a quantity.
    if isinstance(value, (int, float)) and not isinstance(value, bool) and value == 0:
        return 0.0
    raise DpsimError(
        f"must be {dimension.name} with its unit, such as {dimension.example!r}, but got "
        f"{value!r}, which has no unit"
    )


def _in_range(value: float, dimension: Dimension) -> float:
    if value and not dimension.least <= abs(value) <= dimension.most:
        least, most = (
            f"{bound:g} {dimension.symbol}" for bound in (dimension.least, dimension.most)
        )
        raise DpsimError(
            f"must be 0, or from {least} to {most}, but got {value:g} {dimension.symbol}"
        )
    return value


def exact(value: float, dimension: Dimension) -> str:
    """Return ``value`` as text that reads back to exactly the same float.

    ``exact(3.125e9, RATE)`` is ``"3125000000.0 B/s"``.
    """
    return f"{float(value)!r} {dimension.symbol}"


_COUNT = re.compile(r"\s*(\d+\.?\d*(?:[eE]\+?\d{1,2})?)\s*([kKMGBT]?)\s*")
_COUNTED_IN = {"": 1, "k": 10**3, "K": 10**3, "M": 10**6, "G": 10**9, "B": 10**9, "T": 10**12}
_MOST_COUNTED = 1e18


def count(value: object) -> float:
    """Return a number of things, such as tokens: ``count("1.5T")`` is 1.5e12.

    k, M, B (or G) and T are powers of 1000. Raises DpsimError unless it is a number above 0.
    """
    match = _COUNT.fullmatch(str(value)) if len(str(value)) <= 64 else None
    number = 0.0 if match is None else float(Fraction(match[1]) * _COUNTED_IN[match[2]])
    if not 0 < number <= _MOST_COUNTED:
        raise DpsimError(
            f"must be a number above 0 and up to {_MOST_COUNTED:g}, such as 300B or 1T, but got "
            f"{str(value)[:64]!r}"
        )
    return number


_DISPLAY_PREFIXES = (
    (1e15, "P"),
    (1e12, "T"),
    (1e9, "G"),
    (1e6, "M"),
    (1e3, "k"),
    (1.0, ""),
    (1e-3, "m"),
    (1e-6, "u"),
    (1e-9, "n"),
)

# Longer times (s) are shown in one of these units.
_LONG = 1000.0
_LONG_TIMES = (("days", 86_400.0), ("h", 3600.0), ("min", 60.0))


def plural(count: int, noun: str) -> str:
    """Return a number of things: "1 node", "1,024 nodes"."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def amount(number: float, digits: int = 3) -> str:
    """Format a number: whole if it has at least ``digits`` digits, otherwise with that many."""
    is_whole = abs(number) >= 10 ** (digits - 1) - 0.5
    return f"{number:,.0f}" if is_whole else f"{number:.{digits}g}"


def human(value: float, dimension: Dimension, digits: int = 4) -> str:
    """Return ``value`` for display, with a decimal prefix.

    ``human(0.0123, TIME)`` is ``"12.3 ms"``; times from 1000 s on are in min, h or days.
    """
    if value == 0 or not math.isfinite(value):
        return f"{value:g} {dimension.symbol}"
    if dimension is TIME and abs(value) >= _LONG:
        return _long_time(value, digits)
    smallest = 1e-9 if dimension is TIME else 1.0
    largest = 1.0 if dimension is TIME else 1e15
    for factor, prefix in _DISPLAY_PREFIXES:
        if not smallest <= factor <= largest:
            continue
        # A value that rounding left slightly below 1 ms is 1 ms, and not 1000 us.
        if abs(value) >= factor * (1 - 1e-12) or factor == smallest:
            # Rounded first, because fewer digits than before the point would give an exponent.
            rounded = float(f"{value / factor:.{digits}g}")
            return f"{rounded:.15g} {prefix}{dimension.symbol}"
    raise AssertionError("every finite value has a prefix")


def _long_time(seconds: float, digits: int) -> str:
    """Return a time in days, h or min.

    Of the units that it fills at least twice, the largest that is exact, or else the largest.
    """
    texts = []
    for unit, length in _LONG_TIMES:
        if abs(seconds) < 2 * length:
            continue
        many = abs(seconds) >= length * 10**digits
        number = f"{seconds / length:.0f}" if many else f"{seconds / length:.{digits}g}"
        # From this many minutes on the value is days, which people read more easily than a long
        # exact number.
        if float(number) * length == seconds and not (many and unit == "min"):
            return f"{number} {unit}"
        texts.append(f"{number} {unit}")
    return texts[0]


def size(nbytes: float) -> str:
    """Return an amount of data for display: in whole binary units if possible, ``"1 MiB"``.

    It has a decimal prefix if no binary unit is whole, or if decimal is exact and shorter: 80 MB,
    not 78,125 KiB.
    """
    # The shorter of two exact notations is probably the original.
    decimal = human(nbytes, DATA)
    is_exact = nbytes > 0 and parse(decimal, DATA) == nbytes
    for power, unit in ((2**40, "TiB"), (2**30, "GiB"), (2**20, "MiB"), (2**10, "KiB")):
        if nbytes >= power and nbytes % power == 0:
            binary = f"{nbytes / power:,.0f} {unit}"
            return decimal if is_exact and len(decimal) < len(binary) else binary
    return decimal


def _quantity(dimension: Dimension) -> Any:
    def read(value: object) -> float:
        return _in_range(to_si(value, dimension), dimension)

    def write(value: object) -> object:
        # A field may also allow other types, ``Seconds | Literal["auto"]``: leave those unchanged.
        return exact(value, dimension) if isinstance(value, float) else value

    schema = {
        "type": "string",
        "description": f"{dimension.name} with its unit",
        "examples": [dimension.example],
    }
    return (
        BeforeValidator(read),
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
Count = Annotated[
    float,
    BeforeValidator(count),
    WithJsonSchema(
        {"anyOf": [{"type": "number", "exclusiveMinimum": 0}, {"type": "string"}]},
        mode="validation",
    ),
]
