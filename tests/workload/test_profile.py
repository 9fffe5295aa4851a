import json
import re
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from dpsim.base.errors import DpsimError
from dpsim.workload import (
    KINDS,
    Layer,
    MeasuredTimes,
    Model,
    ModelProfile,
    build_model,
    load_model_profile,
)
from dpsim.workload.profile import ProfileLayer

TIMES = MeasuredTimes(
    batch_sizes=(4, 8), forward_s=((2.0, 4.0), (3.0, 8.0)), backward_s=((4.0, 8.0), (6.0, 16.0))
)


@pytest.mark.parametrize(
    ("batch", "forward"),
    [
        (4, [2.0, 4.0]),
        (6, [2.5, 6.0]),  # on the line between
        (8, [3.0, 8.0]),
        (16, [6.0, 16.0]),  # in proportion above
        (2, [1.5, 2.0]),  # on the line below
        (1, [1.25, 1.0]),
    ],
)
def test_times_between_and_beyond_the_measured_batches(batch, forward):
    assert TIMES.forward(batch).tolist() == forward
    assert TIMES.backward(batch).tolist() == [2 * seconds for seconds in forward]


def test_below_the_smallest_batch_time_is_at_least_its_share():
    steep = MeasuredTimes(
        batch_sizes=(10, 11), forward_s=((1.0,), (9.0,)), backward_s=((1.0,), (0.5,))
    )
    assert steep.forward(5).tolist() == [0.5]
    assert steep.backward(5).tolist() == [1.0]  # a slope downwards is noise


def test_one_batch_size_is_scaled():
    single = MeasuredTimes(batch_sizes=(8,), forward_s=((2.0,),), backward_s=((4.0,),))
    assert (single.forward(4)[0], single.forward(16)[0]) == (1.0, 4.0)


@given(
    st.integers(1, 100),
    st.integers(1, 100),
    st.lists(st.floats(0, 1e3), min_size=3, max_size=3).map(sorted),
)
def test_more_samples_never_take_less_time_where_the_measurements_say_so(one, other, rising):
    times = MeasuredTimes(
        batch_sizes=(5, 20, 60), forward_s=tuple((t,) for t in rising), backward_s=((0.0,),) * 3
    )
    low, high = sorted((one, other))
    assert times.forward(low)[0] <= times.forward(high)[0] * (1 + 1e-12) + 1e-300


def test_the_update_is_the_median_of_all():
    assert TIMES.optimizer() is None
    assert TIMES.model_copy(update={"optimizer_s": (1.0, 3.0)}).optimizer() == 2.0


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"batch_sizes": (8, 4)}, "batch_sizes must rise, but got [8, 4]"),
        ({"forward_s": ((1.0, 2.0),)}, "forward_s must have 2 rows (one a batch size) of 2 layers"),
        (
            {"backward_s": ((1.0,), (1.0, 2.0))},
            "backward_s must have 2 rows (one a batch size) of 2 layers",
        ),
        ({"gradient_ready_s": ((1.0,),)}, "gradient_ready_s must have 2 rows"),
        ({"optimizer_s": (1.0,)}, "optimizer_s must have 2 numbers (one a batch size), but got 1"),
        ({"forward_s": ((-1.0, 2.0), (1.0, 2.0))}, "greater than or equal to 0"),
    ],
)
def test_tables_that_do_not_fit(change, message):
    with pytest.raises(ValidationError) as caught:
        MeasuredTimes.model_validate(TIMES.model_dump() | change)
    assert message in str(caught.value)


def test_a_profile_layer_has_the_fields_of_a_layer():
    assert list(ProfileLayer.model_fields) == list(Layer.__dataclass_fields__)


@pytest.mark.parametrize("name", ["resnet50", "lstm-ptb", "llama2-7b"])
def test_a_model_survives_its_profile(tmp_path, name):
    model, path = build_model(name), tmp_path / "p.json"
    path.write_text(ModelProfile.of(model, {"source": "test"}).to_json())
    assert load_model_profile(path).model() == model


def test_measured_times_and_notes_survive(tmp_path):
    model = Model(
        "m", (Layer("a", "conv", (3, 1)), Layer("b", "norm")), "sample", TIMES, ("doubtful",)
    )
    path = tmp_path / "p.json"
    path.write_text(ModelProfile.of(model, {}).to_json())
    assert load_model_profile(path).model() == model
    assert np.array_equal(load_model_profile(path).model().measured.forward(4), [2.0, 4.0])


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "EOF while parsing"),
        ("{}", "name: is missing"),
        ('{"name": "m", "layers": []}', "layers: must have at least 1 entries, but got 0"),
        (
            '{"name": "m", "layers": [{"name": "a", "kind": "magic"}]}',
            "'norm' or 'pool', but got 'magic'",
        ),
        (
            '{"name": "m", "layers": [{"name": "a", "parameters": [0]}]}',
            "layers.0.parameters.0: must be greater than 0, but got 0",
        ),
        (
            '{"schema_version": 2, "name": "m", "layers": [{"name": "a"}]}',
            "schema_version: must be 1, but got 2",
        ),
        (
            json.dumps(
                {"name": "m", "layers": [{"name": "a"}], "measured": TIMES.model_dump(mode="json")}
            ),
            "measured must have a time for each of 1 layers, but has 2",
        ),
        (
            '{"name": "m", "layers": [{"name": "a", "kind": "conv", "parameters": [9]}]}',
            "layer a (conv) has weights, and must have forward_flop, its FLOP per sample",
        ),
    ],
)
def test_broken_profiles(tmp_path, content, message):
    path = tmp_path / "p.json"
    path.write_text(content)
    with pytest.raises(DpsimError) as caught:
        load_model_profile(path)
    assert str(caught.value).startswith(f"{path}: ")
    assert message in str(caught.value)


def test_a_missing_profile(tmp_path):
    with pytest.raises(DpsimError, match=r"none.json: cannot be read: No such file or directory"):
        load_model_profile(tmp_path / "none.json")


def profiled(tmp_path, *layers):
    path = tmp_path / "p.json"
    path.write_text(json.dumps({"name": "m", "layers": layers}))
    return load_model_profile(path).model()


def test_a_backward_pass_that_no_layer_states_is_twice_the_forward_pass(tmp_path):
    model = profiled(
        tmp_path,
        {"name": "a", "kind": "conv", "parameters": [9], "forward_flop": 10, "forward_traffic": 3},
        {"name": "b", "kind": "norm", "forward_traffic": 4},
    )
    assert [layer.backward_flop for layer in model.layers] == [20, 0]
    assert [layer.backward_traffic for layer in model.layers] == [6, 8]
    assert model.notes == (
        "assumed: backward passes take twice the FLOP and traffic of forward passes in a, b, "
        "whose backward_flop is 0",
    )


def test_only_layers_that_must_have_a_backward_pass_get_one(tmp_path):
    product = {"kind": "linear", "parameters": [9], "forward_flop": 10, "forward_traffic": 1}
    model = profiled(
        tmp_path,
        {"name": "before", "kind": "attention", "forward_flop": 5},
        {"name": "stated", **product, "backward_flop": 15},
        {"name": "frozen", **product, "frozen": True},
        {"name": "position", "kind": "elementwise", "forward_traffic": 2},
        {"name": "missing", **product},
    )
    assert [layer.backward_flop for layer in model.layers] == [0, 15, 0, 0, 20]
    assert "in missing, whose" in model.notes[0]


def test_a_profile_without_traffic_says_what_that_leaves_out(tmp_path):
    model = profiled(tmp_path, {"name": "a", "forward_flop": 10, "backward_flop": 20})
    assert model.notes == (
        "assumed: activations are read and written at no cost, since no layer has "
        "forward_traffic: the predicted step is too short by that",
    )


def test_the_how_to_names_every_field_and_kind_of_a_layer():
    page = Path(__file__).parents[2] / "docs" / "how-to" / "bring-your-own-model.md"
    table = page.read_text().split("| field | meaning |")[1].split("\n\n")[0]
    rows = [line for line in table.splitlines() if line.startswith("| `")]
    named = [name for row in rows for name in re.findall("`(\\w+)`", row.split("|")[1])]
    assert named == list(ProfileLayer.model_fields)
    (kinds,) = (row for row in rows if row.startswith("| `kind`"))
    assert set(KINDS) <= set(re.findall(r"\w+", kinds))
