"""What may be set is read off the schema.

Every kind of every part, each running with nothing but its name.
"""

import pytest

from app import forms
from app.reading import scenario
from app.spec import Spec
from dpsim.base.errors import DpsimError

BASE = Spec("resnet50-16-v100-local-sgd", changes=("strategy.sync.kind=bsp",))
PARTS = (
    "cluster.network",
    "strategy.aggregation",
    "strategy.sync",
    "strategy.overlap",
    "strategy.compression",
    "disturbance.jitter",
)
KINDS = [(part, kind) for part in PARTS for kind in forms.union(part).kinds]
NEEDS_MORE = {
    "custom": "must have either edges or graphml",
    "histogram": "file",
    "torus": "dims",
    "dragonfly": "",
    "full-mesh": "",
}


@pytest.mark.parametrize(("part", "kind"), KINDS)
def test_every_kind_can_be_chosen_or_names_what_it_needs(part, kind):
    union = forms.union(part)
    spec = BASE.with_value(f"{part}.{union.key}", kind)
    try:
        assert scenario(spec)
    except DpsimError as error:
        assert kind in NEEDS_MORE
        assert NEEDS_MORE[kind] in str(error)  # noqa: PT017


@pytest.mark.parametrize(("part", "kind"), KINDS)
def test_every_field_of_a_kind_has_a_widget_an_explanation_and_a_default_that_reads_back(
    part, kind
):
    union = forms.union(part)
    for field in forms.fields(union.kinds[kind], part):
        assert field.help, field.path
        assert field.type in ("choice", "boolean", "integer", "number", "text")
        if field.default is not None and kind not in NEEDS_MORE:
            scenario(
                BASE.with_value(f"{part}.{union.key}", kind).with_value(
                    field.path, forms.shown(field.default)
                )
            )


def test_defaults_of_quantities_are_shown_with_their_unit():
    (size, first) = forms.fields(
        forms.union("strategy.overlap").kinds["buckets"], "strategy.overlap"
    )
    assert (forms.shown(size.default), forms.shown(first.default)) == ("26.2144 MB", "1.04858 MB")


def test_choices_are_the_catalogues_and_know_aliases():
    fields = {field.name: field for field in forms.fields(forms.part("cluster"), "cluster")}
    assert "dgx-h100" in fields["node"].choices
    nic = next(
        field
        for field in forms.fields(forms.union("cluster.network").kinds["single-switch"], "x")
        if field.name == "nic"
    )
    assert nic.catalogue.canonical("25GbE") == "ethernet-25g"


SHOWN = {
    "3125000000.0 B/s": "3.125 GB/s",
    "25 MiB": "25 MiB",
    None: "",
    True: "true",
    0.05: "0.05",
    " ": " ",
}


@pytest.mark.parametrize(("value", "text"), SHOWN.items())
def test_values_are_shown_for_people(value, text):
    assert forms.shown(value) == text
