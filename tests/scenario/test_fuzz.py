"""Whatever stands in a file or an option, it is a scenario or a ScenarioError, never another
exception.
"""

from __future__ import annotations

import json

from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from stand_in import GOOD, Scenario

from dpsim.base.errors import ScenarioError
from dpsim.scenario import validate
from dpsim.scenario.overrides import apply_overrides
from dpsim.scenario.yaml_text import from_text

_MARKS = "\t|\n|  |:|: |- |[|]|{|}|,|#|&a |*a|!!int |!!float |!<|%YAML 1.1\n|---\n|...\n|>-\n|'|\"|\\|? |<<: |~|@"
_ODD = "`|\x00|\ufeff|\u2028|😀"
_WORDS = '-1|0|1e999|.nan|25 Gb|kind: ssp|true|{kind: [x]}|{kind: {}}|{gpus: 1}|[[1]]|"\\ud800"|"\\UFFFFFFFF"'
SNIPPETS = st.sampled_from([*_MARKS.split("|"), *_ODD.split("|"), *_WORDS.split("|"), "|\n"])
MUTATIONS = st.lists(
    st.tuples(st.integers(0, len(GOOD)), st.integers(0, 12), SNIPPETS | st.text(max_size=4)),
    min_size=1,
    max_size=4,
)
SETTINGS = settings(max_examples=250, deadline=None, suppress_health_check=[HealthCheck.too_slow])


def _mutated(mutations: list[tuple[int, int, str]]) -> str:
    text = GOOD
    for start, length, new in mutations:
        text = text[:start] + new + text[start + length :]
    return text


def _check(text: str, *overrides: str) -> None:
    try:
        scenario = validate(
            apply_overrides(from_text(text, "f.yaml"), overrides, Scenario), Scenario
        )
    except ScenarioError as error:
        lines = str(error).splitlines()
        assert lines
        assert all(line.isprintable() for line in lines)
        assert all(line.startswith(("f.yaml:", "--set ", "... and ")) for line in lines)
    else:
        assert isinstance(scenario, Scenario)


@SETTINGS
@given(MUTATIONS)
def test_mutated_scenarios(mutations: list[tuple[int, int, str]]) -> None:
    _check(_mutated(mutations))


@SETTINGS
@given(st.text(max_size=60) | st.lists(SNIPPETS, max_size=12).map("".join))
@example("? ")
@example("%TAG ! x\n--- !y z")
@example("!!map")
def test_any_text(text: str) -> None:
    _check(text)


PATHS = st.lists(
    st.sampled_from(
        [
            "strategy",
            "sync",
            "kind",
            "overlap",
            "cluster",
            "nodes",
            "disturbance",
            "faults",
            "0",
            "x",
            "run",
            "",
        ]
    ),
    max_size=5,
).map(".".join)


@SETTINGS
@given(
    st.lists(
        st.tuples(PATHS | st.text(max_size=8), SNIPPETS | st.text(max_size=8)).map("=".join),
        max_size=3,
    )
)
def test_any_overrides(overrides: list[str]) -> None:
    _check(GOOD, *overrides)


VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=5)
    | st.sampled_from(["ssp", "bsp", "1 GB/s", "auto"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["kind", "gpus", "at", "sync", "nodes"]), inner)
    ),
    max_leaves=6,
)


@SETTINGS
@given(PATHS, VALUES)
def test_any_value_at_any_path(path: str, value: object) -> None:
    _check(GOOD, f"{path}={json.dumps(value)}")
