"""Variants of one scenario: every combination of values for some fields, and alternatives."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import product

from dpsim.base.errors import DpsimError
from dpsim.scenario import Scenario, full_path

Variant = dict[str, str]


def parse_vary(text: str, option: str = "--vary") -> tuple[str, list[str]]:
    """Split ``key=a,b,c`` into key and values; commas within brackets or braces do not split.

    Raises DpsimError, which names the ``option``.
    """
    key, equals, values = text.partition("=")
    parts = _parts(values)
    if not equals or not key.strip() or any(not part.strip() for part in parts):
        raise DpsimError(
            f"{option} must be key=value,value,..., such as "
            f"strategy.overlap.kind=sequential,buckets, but got {text!r}"
        )
    return full_path(key.strip(), Scenario), [part.strip() for part in parts]


def parse_alternative(text: str) -> Variant:
    """Parse ``key=value,key=value`` into values by path.

    In ``compression.kind=powersgd,rank=4`` the first key is a field of the strategy, the second is
    in the same section as the first. Raises DpsimError.
    """
    values: Variant = {}
    parent = ""
    for part in _parts(text):
        key, equals, value = part.partition("=")
        if not equals or not key.strip() or not value.strip():
            raise DpsimError(
                "--alternative must be key=value,key=value,..., such as "
                f"compression.kind=powersgd,rank=4, but got {text!r}"
            )
        path = full_path(key.strip(), Scenario, parent)
        values[path] = value.strip()
        # The next key may be in the same section: ``rank`` beside ``strategy.compression.kind``.
        parent = path.rpartition(".")[0]
    return values


def _parts(text: str) -> list[str]:
    """Split at the commas outside brackets and braces."""
    parts, depth = [""], 0
    for char in text:
        depth += (char in "[{") - (char in "]}")
        if char == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += char
    return parts


def variants(vary: Iterable[str], alternatives: Iterable[str] = ()) -> list[Variant]:
    """Return every combination of the values of the ``key=a,b`` texts, as overrides by key.

    With alternatives, each combination is returned both without them and with each of them. Raises
    DpsimError for a bad text.
    """
    axes = [parse_vary(text) for text in vary]
    several = [parse_alternative(text) for text in alternatives]
    keys = [key for key, _ in axes]
    every = product(*(values for _, values in axes))
    combinations = [dict(zip(keys, chosen, strict=True)) for chosen in every]
    if not several:
        return combinations
    return [{**base, **other} for base in combinations for other in ({}, *several)]
