"""One scenario many ways.

Every combination of values for some of its fields, and its nodes counted up.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from itertools import product

from dpsim.base.errors import DpsimError
from dpsim.engine import Result, simulate
from dpsim.scenario import load_scenario

Variant = dict[str, str]


def parse_vary(text: str) -> tuple[str, list[str]]:
    """``key=a,b,c`` as the key and its values; commas inside brackets or braces belong to a value.

    Raises DpsimError.
    """
    key, equals, values = text.partition("=")
    parts: list[str] = [""]
    depth = 0
    for char in values:
        depth += (char in "[{") - (char in "]}")
        if char == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += char
    if not equals or not key.strip() or any(not part.strip() for part in parts):
        raise DpsimError(
            "--vary must be key=value,value,..., such as "
            f"strategy.overlap.kind=sequential,buckets, but got {text!r}"
        )
    return key.strip(), [part.strip() for part in parts]


def variants(vary: Iterable[str]) -> list[Variant]:
    """Every combination of the values of the ``key=a,b`` texts, as overrides by key.

    Raises DpsimError for a bad text.
    """
    axes = [parse_vary(text) for text in vary]
    return [
        dict(zip([key for key, _ in axes], chosen, strict=True))
        for chosen in product(*(values for _, values in axes))
    ]


def simulate_variants(
    path: str | os.PathLike[str],
    chosen: Iterable[Variant],
    overrides: Iterable[str] = (),
    progress: Callable[[int], None] = lambda done: None,
) -> Iterator[tuple[Variant, Result]]:
    """Simulate the scenario at ``path`` once per variant.

    All are checked before the first is simulated.

    ``progress`` is called with the number of variants done. Raises ScenarioError for a variant that
    is not a scenario.
    """
    fixed = list(overrides)
    scenarios = [
        (v, load_scenario(path, [*fixed, *(f"{key}={value}" for key, value in v.items())]))
        for v in chosen
    ]
    for done, (variant, scenario) in enumerate(scenarios, 1):
        yield variant, simulate(scenario)
        progress(done)


def saturation(curve: list[tuple[int, float]]) -> int | None:
    """The number of nodes of the highest throughput, None where that is the last one.

    ``curve`` is of (nodes, samples/s).
    """
    nodes, _ = max(curve, key=lambda point: point[1])
    return None if nodes == max(point[0] for point in curve) else nodes
