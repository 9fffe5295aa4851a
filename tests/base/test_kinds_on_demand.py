"""Unions whose models are imported on demand are to pydantic what the plain union is."""

import subprocess
import sys
from typing import Annotated

import pytest
from pydantic import BaseModel, Field, TypeAdapter, ValidationError
from shapes.corners import Square
from shapes.flat_top import FlatTop
from shapes.round import Round

from dpsim.base.kinds import Kinds, kinds_of
from dpsim.scenario import shape_of

PLAIN = Annotated[Square | Round | FlatTop, Field(discriminator="kind")]
ON_DEMAND = Annotated[object, Kinds("kind", "shapes", ("square", "round"), {"square": "corners"})]


class WithPlain(BaseModel):
    shape: PLAIN = Round(kind="round")


class WithKinds(BaseModel):
    shape: ON_DEMAND = Round(kind="round")


def outcome(model, value):
    try:
        found = model.model_validate({"shape": value})
    except ValidationError as error:
        return error.errors(include_url=False)
    return found.model_dump(mode="json", exclude_unset=True)


@pytest.mark.parametrize(
    "value",
    [
        {"kind": "round"},
        {"kind": "square", "side": 3},
        {"kind": "round", "radius": -1},
        {"kind": "round", "radios": 1},
        {"kind": "square", "side": "x"},
        {"kind": "flat-top"},
        {"kind": "flat_top"},
        {"kind": "corners"},
        {"kind": "oval"},
        {"side": 3},
        {},
        3,
        None,
        Round(kind="round", radius=2),
        Square(kind="square"),
    ],
    ids=repr,
)
def test_what_is_read_and_refused_and_written_is_the_same(value):
    assert outcome(WithKinds, value) == outcome(WithPlain, value)


def test_the_json_schema_is_the_same():
    found, plain = WithKinds.model_json_schema(), WithPlain.model_json_schema()
    assert {**found, "title": "WithPlain"} == plain
    assert TypeAdapter(ON_DEMAND).json_schema() == TypeAdapter(PLAIN).json_schema()


def test_its_shape_is_the_same():
    found, plain = shape_of(ON_DEMAND), shape_of(PLAIN)
    assert found.kinds() == plain.kinds()
    assert list(found.kinds()) == ["square", "round", "flat-top"]
    assert found.kind("square") is plain.kind("square") is Square
    assert found.kind("oval") is plain.kind("oval") is None
    assert found.names() == plain.names()
    assert found.options == plain.options
    assert kinds_of(ON_DEMAND) == ("square", "round", "flat-top")


def test_a_kind_that_is_not_named_is_not_imported():
    program = (
        "import sys; from dpsim import load_scenario; "
        "load_scenario('scenarios/powersgd.yaml'); "
        "names = [name.rpartition('.')[2] for name in sys.modules]; "
        "assert 'powersgd' in names and 'qsgd' not in names and 'dragonfly' not in names"
    )
    subprocess.run([sys.executable, "-c", program], check=True)
