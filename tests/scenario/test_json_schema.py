from __future__ import annotations

import json
from pathlib import Path

import pytest
from stand_in import Scenario as StandIn

from dpsim.commands.schema import schema_text

COMMITTED = Path(__file__).parents[2] / "scenarios" / "scenario.schema.json"


def test_the_schema_says_its_draft_and_title_first_and_has_no_address() -> None:
    schema = json.loads(schema_text(StandIn))
    assert list(schema)[:2] == ["$schema", "title"]
    assert schema["$schema"] == "https://json-schema.org/draft/2020-12/schema"
    assert schema["title"] == "Scenario"
    assert schema["required"] == ["name", "workload"]
    assert schema["additionalProperties"] is False
    assert "$id" not in schema


def test_the_text_is_the_same_each_time_and_ends_in_a_newline() -> None:
    text = schema_text(StandIn)
    assert text.endswith("}\n")
    assert text == schema_text(StandIn)


def test_the_committed_schema_is_that_of_the_code() -> None:
    scenario = pytest.importorskip("dpsim.scenario.schema").Scenario
    assert COMMITTED.is_file(), (
        f"{COMMITTED.name} is missing: dpsim schema > scenarios/scenario.schema.json"
    )
    assert COMMITTED.read_text(encoding="utf-8") == schema_text(scenario), (
        "scenarios/scenario.schema.json has drifted from the models: dpsim schema > "
        "scenarios/scenario.schema.json"
    )
