"""Scenario files with something wrong in their text.

Lines, values and characters changed, two files mixed.
"""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from random import Random
from typing import Any

from hostile_values import Generator
from odd_values import ODD

from dpsim.scenario import Scenario
from dpsim.scenario.shape import fields_of

FOLDER = Path(__file__).parents[2] / "scenarios"
SNIPPETS = (
    *(
        "\t",
        "\n",
        "  ",
        ":",
        ": ",
        "- ",
        "[",
        "]",
        "{",
        "}",
        ",",
        "#",
        "&a ",
        "*a",
        "!!int ",
        "!!python/object:os.system ",
    ),
    *(
        "|",
        ">-",
        "%YAML 1.1\n",
        "---\n",
        "...\n",
        "'",
        '"',
        "\\",
        "? ",
        "<<: ",
        "~",
        "@",
        "`",
        "\x00",
        "\ufeff",
        "\u2028",
        "\x85",
        "\r",
        "😀",
    ),
    *(
        "\ud800",
        "\u202e",
        "-1",
        "0",
        "1e999",
        ".nan",
        "-.inf",
        "0x1F",
        "0o17",
        "1_000",
        "010",
        "yes",
        "2001-01-01",
        "1:30",
        "null",
    ),
    *(
        "25 Gb",
        "1 bit/s",
        "1e15 B/s",
        "0 s",
        "1e-300 s",
        "9" * 400,
        "1000000",
        "1e18",
        "kind: ssp",
        "kind: asp",
        "kind: gossip",
    ),
)


@cache
def sources() -> tuple[str, ...]:
    """The texts of the scenarios that come with dpsim and are small enough to try thousands of
    times.
    """
    found = [path.read_text() for path in sorted(FOLDER.glob("*.yaml"))]
    return tuple(found)


def mutated(random: Random) -> str:
    """One scenario's text, changed in one to four places; few nodes and few steps unless that is
    what was changed.
    """
    text = _small(random.choice(sources()))
    for _ in range(random.choice((1, 1, 1, 2, 2, 3, 4))):
        text = random.choice(CHANGES)(text, random)
    return text


def _small(text: str) -> str:
    lines = [line for line in text.splitlines() if not line.startswith("#")]
    lines = [
        "run: {steps: 2, warmup: 1, allow_out_of_memory: true}" if line.startswith("run:") else line
        for line in lines
    ]
    return (
        "\n".join(lines)
        .replace("nodes: 16\n", "nodes: 2\n")
        .replace("nodes: 4\n", "nodes: 2\n  gpus_per_node: 2\n")
        + "\n"
    )


def _characters(text: str, random: Random) -> str:
    start, length = random.randrange(len(text) + 1), random.choice((0, 0, 1, 2, 8))
    return text[:start] + random.choice(SNIPPETS) + text[start + length :]


def _value(text: str, random: Random) -> str:
    """Another value behind a colon: an odd one, or one that the field may have."""
    places = [place for place, sign in enumerate(text) if text[place : place + 2] == ": "]
    if not places:
        return text
    start = random.choice(places)
    end = min(
        (found for sign in (",", "}", "\n") if (found := text.find(sign, start)) > 0),
        default=len(text),
    )
    generator = Generator(random)
    new = random.choice(ODD) if random.random() < 0.5 else generator.integer(0, None)
    return f"{text[:start]}: {_yaml(new)}{text[end:]}"


def _part(text: str, random: Random) -> str:
    """A whole part of the scenario, drawn from the schema, in place of the file's own."""
    generator = Generator(random)
    name = random.choice(
        [name for name in fields_of(Scenario) if name not in ("name", "testbed", "sweep")]
    )
    kept, inside = [], False
    for line in text.splitlines():
        inside = line.startswith(f"{name}:") or (inside and line.startswith(" "))
        kept += [] if inside else [line]
    return "\n".join([*kept, f"{name}: {_yaml(generator.value(Scenario, name))}"]) + "\n"


def _lines(text: str, random: Random) -> str:
    """A line taken out, doubled, moved, indented otherwise, or one of another file put in."""
    lines = text.splitlines(keepends=True) or ["\n"]
    place = random.randrange(len(lines))
    other = random.choice(random.choice(sources()).splitlines(keepends=True))
    line = lines[place]
    lines[place : place + 1] = random.choice(
        ([], [line, line], ["  " + line], [line.lstrip(" ")], [line, other], [other])
    )
    return "".join(lines)


def _words(text: str, random: Random) -> str:
    """A word of another file in place of one of this."""
    words = text.split(" ")
    words[random.randrange(len(words))] = random.choice(random.choice(sources()).split(" "))
    return " ".join(words)


def _yaml(value: Any) -> str:
    return json.dumps(value)


CHANGES = (_characters, _value, _value, _value, *(_part,) * 10, _lines, _words)
