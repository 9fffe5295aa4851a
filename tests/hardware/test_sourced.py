import json

import pytest
from pydantic import TypeAdapter, ValidationError

from dpsim.hardware import USER_GIVEN, Link, Sourced, SourcedFraction, SourcedRate


def test_a_value_stands_with_its_source():
    rate = SourcedRate.model_validate({"value": "25 Gbit/s", "source": "IEEE 802.3"})
    assert (rate.value, rate.source) == (3.125e9, "IEEE 802.3")


def test_a_bare_value_is_given_in_the_scenario():
    rate = SourcedRate.model_validate("25 Gbit/s")
    assert (rate.value, rate.source) == (3.125e9, USER_GIVEN) == (3.125e9, "given in the scenario")


def test_a_sourced_value_is_taken_as_it_is():
    rate = SourcedRate.model_validate("1 GB/s")
    assert SourcedRate.model_validate(rate) == rate


def test_any_type_can_be_sourced():
    assert Sourced[int].model_validate(3).value == 3


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (
            "25 Gb",
            "must be a data rate with its unit, such as '25 Gbit/s', but got '25 Gb', which is an "
            "amount of data",
        ),
        (25, "but got 25, which has no unit"),
        ({"value": "1 GB/s", "source": ""}, "at least 1 character"),
        ({"value": "1 GB/s", "from": "x"}, "Extra inputs are not permitted"),
        ({"source": "x"}, "Field required"),
    ],
)
def test_what_is_no_rate_with_a_source_is_refused(data, message):
    with pytest.raises(ValidationError) as caught:
        SourcedRate.model_validate(data)
    assert message in str(caught.value)


@pytest.mark.parametrize("value", [0, -0.1, 1.1])
def test_a_fraction_is_above_0_and_at_most_1(value):
    with pytest.raises(ValidationError):
        SourcedFraction.model_validate(value)


def test_json_reads_back_to_the_same_value():
    rate = SourcedRate.model_validate({"value": "15.7538 GB/s", "source": "x"})
    assert SourcedRate.model_validate(json.loads(rate.model_dump_json())) == rate


def test_the_schema_allows_the_bare_value():
    schema = TypeAdapter(Link).json_schema()
    assert schema["properties"]["rate"]["$ref"] == "#/$defs/SourcedRate"
    bare, full = schema["$defs"]["SourcedRate"]["anyOf"]
    assert bare["anyOf"][0]["type"] == "string"
    assert set(full["properties"]) == {"value", "source"}
