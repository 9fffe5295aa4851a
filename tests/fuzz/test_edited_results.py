"""Answers that were edited by hand are read, or refused in a line that says where."""

import json
import random

import pytest

from dpsim.base.errors import DpsimError
from dpsim.report.pages.page import report_page
from dpsim.report.pages.result_files import read_results

FEW = ["--set", "run.steps=3", "--set", "run.warmup=1"]
QUICKSTART = "scenarios/quickstart.yaml"
COMMANDS = {
    "run": ["run", QUICKSTART, *FEW],
    "compare": ["compare", QUICKSTART, "--vary", "cluster.nodes=1,2", *FEW],
    "scale": ["scale", QUICKSTART, "--nodes", "1,2", *FEW],
    "collective": ["collective", "--ranks", "8", "--bandwidth", "1 GB/s", "-e", "4M"],
    "explain": ["explain", QUICKSTART, *FEW],
}
INSTEAD = (None, "text", "", -1, 0, 1e308, 1.5, True, [], {}, [1, "a"], {"a": None}, "1e400", "NaN")


def places(value, way=()):
    """The way to everything inside a JSON value."""
    inside = value.items() if isinstance(value, dict) else enumerate(value)
    for key, inner in inside:
        yield (*way, key)
        if isinstance(inner, (dict, list)):
            yield from places(inner, (*way, key))


def edited(content, generator):
    """A copy with something left out, or with something else in its place."""
    copy = json.loads(json.dumps(content))
    *outer, last = generator.choice([way for way in places(copy) if len(way) < 6])
    room = copy
    for key in outer:
        room = room[key]
    if generator.random() < 0.3:
        del room[last]
    else:
        room[last] = generator.choice(INSTEAD)
    text = json.dumps(copy).replace('"1e400"', "1e400").replace('"NaN"', "NaN")
    return text if generator.random() < 0.9 else text[: generator.randrange(len(text))]


@pytest.mark.parametrize("kind", COMMANDS)
@pytest.mark.parametrize("cases", [15, pytest.param(40, marks=pytest.mark.wide)])
def test_an_edited_answer_makes_a_page_or_a_line(dpsim, tmp_path, kind, cases):
    content = json.loads(dpsim(*COMMANDS[kind], "--json")[1])
    generator = random.Random(kind)
    path = tmp_path / "answer.json"
    refused = []
    for _ in range(cases):
        path.write_text(edited(content, generator))
        try:
            report_page([read_results(path)])
        except DpsimError as error:
            refused.append(str(error))
    assert 0 < len(refused) < cases
    for line in refused:
        assert line.startswith(f"{path}: must be JSON")
        assert "\n" not in line
