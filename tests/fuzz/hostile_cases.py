"""What is tried: drawn scenarios, mutated files, odd overrides, and the commands on them."""

from __future__ import annotations

import json
from random import Random

from hostile_text import SNIPPETS, mutated
from hostile_values import Generator
from judge import Case
from odd_values import ODD

from dpsim.scenario import Scenario
from dpsim.scenario.shape import Shape, shape_of

COMMANDS: tuple[tuple[str, ...], ...] = (
    ("run", "f.yaml", "--json"),
    ("run", "f.yaml"),
    ("run", "f.yaml", "--trace", "t.json", "--html", "r.html"),
    ("check", "f.yaml", "--json"),
    ("memory", "f.yaml", "--json"),
    ("scale", "f.yaml", "--nodes", "1,2", "--json"),
    ("compare", "f.yaml", "--vary", "strategy.sync.kind=bsp,ssp", "--json"),
    ("compare", "f.yaml", "f.yaml"),
    ("topology", "f.yaml", "--html", "t.html"),
    ("explain", "f.yaml", "--json"),
    ("sweep", "f.yaml", "-o", "out", "--workers", "1"),
    ("layer-split", "f.yaml", "--devices", "2", "--micro-batches", "1,4", "--json"),
)


def case(random: Random) -> Case:
    """One case: seven in ten load and simulate, the others go through the command line."""
    text = json.dumps(Generator(random).scenario()) if random.random() < 0.6 else mutated(random)
    command = random.choice(COMMANDS) if random.random() < 0.02 else None
    sets = tuple(override(random) for _ in range(random.choice((0,) * 9 + (1, 2))))
    if command is None:
        return Case({"f.yaml": text}, sets=sets)
    given = [
        part for one in sets for part in ("--set", one) if "\x00" not in one and one.isprintable()
    ]
    return Case(
        {"f.yaml": text},
        (*command, *(given if command[0] in ("run", "memory", "scale", "compare") else ())),
    )


def override(random: Random) -> str:
    """``key=value`` for ``--set``: a path of the schema, mostly, and any value."""
    generator, path, shape = Generator(random), [], shape_of(Scenario)
    while (fields := shape.fields()) and (not path or random.random() < 0.75):
        path.append(random.choice(list(fields)))
        shape = shape.below(path[-1])
    key = ".".join(path) + random.choice(("", "", "", "", "", "", "[0]", ".x", "[999999]"))
    if random.random() < 0.1:
        return (
            random.choice(SNIPPETS)
            + key
            + random.choice(("", "=", "==", "=:", "=[[", "={a", " = "))
            + random.choice(SNIPPETS)
        )
    return f"{key}={_value(generator, shape)}"


def _value(generator: Generator, shape: Shape) -> str:
    names = shape.names()
    if names and generator.chance(0.7):
        return generator.random.choice(names)
    if generator.chance(0.3) or not shape.options:
        return json.dumps(generator.random.choice(ODD))
    return json.dumps(generator.annotated(generator.random.choice(shape.options)))
