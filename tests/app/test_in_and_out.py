"""Scenarios in and out.

Uploads that nobody vouches for, downloads, commands and addresses that give the same numbers.
"""

from urllib.parse import parse_qs, urlencode

import pytest
from app_pages import EVERY_PART, html, metrics
from hypothesis import given
from hypothesis import strategies as st

from app import sidebar, titles
from app.presets import preset_names, preset_path
from app.reading import document, scenario, to_command, to_yaml, uploaded
from app.spec import MOST_BYTES, MOST_COMPARED, Spec, View
from app.titles import file_stem
from dpsim.base.errors import DpsimError
from dpsim.scenario import load_scenario

GOOD = """name: mine
cluster: {nodes: 2, node: single-gpu, network: {fabric: single-switch, nic: 10GbE}}
workload: {model: resnet50, batch_per_gpu: 8}
run: {steps: 2, warmup: 0}
"""
BROKEN = {
    "not YAML": (GOOD + "x: [", "mine.yaml:5:5: "),
    "unknown key": (GOOD.replace("nodes:", "noodles:"), "mine.yaml:2:11: cluster.noodles: "),
    "wrong value": (
        GOOD.replace("batch_per_gpu: 8", "batch_per_gpu: -8"),
        "mine.yaml:3:44: workload.batch_per_gpu: must be",
    ),
    "a list": ("- 1\n", "mine.yaml:1:1: must be a mapping"),
    "nothing": ("", "mine.yaml:1:1: must be a mapping"),
    "a tag": (GOOD + "seed: !!python/object/apply:os.getcwd []\n", "mine.yaml:5:7: "),
    "a torch factory": (
        GOOD.replace("model: resnet50", "model: {torch: 'os:getcwd', input: [3]}"),
        "mine.yaml:3:20: workload.model.torch: must be a model of the catalogue here",
    ),
    "a node's file": (
        GOOD.replace("single-gpu", "../node.yaml"),
        "mine.yaml:2:27: cluster.node: must not name a file here",
    ),
    "a profile": (GOOD.replace("resnet50", "{profile: /etc/passwd}"), "must not name a file here"),
    "a config": (GOOD.replace("resnet50", "{config: /etc/passwd}"), "must not name a file here"),
    "a calibration": (GOOD + "calibration: /etc/passwd.json\n", "must not name a file here"),
    "a histogram": (
        GOOD + "disturbance: {jitter: {kind: histogram, file: /etc/passwd}}\n",
        "must not name a file here",
    ),
    "a graph": (
        GOOD.replace("fabric: single-switch", "fabric: custom, graphml: /etc/passwd"),
        "must not name a file here",
    ),
}


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_upload_is_refused_with_its_place(name):
    text, message = BROKEN[name]
    with pytest.raises(DpsimError) as error:
        scenario(uploaded("mine.yaml", text.encode()))
    assert message in str(error.value)


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_scenario_in_an_address_is_an_error_on_the_page(open_page, name):
    query = Spec(text=BROKEN[name][0], file="mine.yaml").to_query()
    page = open_page("what_if", wait=False, parts=EVERY_PART, **query)
    assert not page.exception
    assert page.error or page.warning or metrics(page)
    assert name == "nothing" or BROKEN[name][1].partition(": ")[0] in page.error[0].value


def test_an_upload_that_is_too_large_or_no_text_is_refused_with_the_number():
    with pytest.raises(DpsimError, match=r"must be at most 1,048,576 bytes, but got 1,048,577"):
        uploaded("big.yaml", b"#" * (MOST_BYTES + 1))
    with pytest.raises(
        DpsimError, match=r"mine.yaml:2: must be text in UTF-8, but got the byte 0xff"
    ):
        uploaded("mine.yaml", b"name: x\n\xff")


def test_a_broken_upload_keeps_the_shown_scenario(open_page):
    parts = [sidebar.UPLOAD]
    page = open_page("what_if", wait=False, parts=parts, preset="resnet50-16-v100-local-sgd")
    before = metrics(page)
    page.file_uploader(key="upload").set_value(("bad.yaml", b"name: 3\n", "application/yaml")).run()
    assert "bad.yaml:1:" in page.error[0].value
    assert metrics(page) == before
    page.file_uploader(key="upload").set_value(
        ("good.yaml", GOOD.encode(), "application/yaml")
    ).run()
    assert not page.error
    assert "ResNet-50 · 2 x V100 · 10 GbE<small>from mine</small></h1>" in html(page)


@pytest.mark.parametrize("name", preset_names())
def test_a_download_reads_back_to_the_same_scenario(tmp_path, name):
    spec = Spec(name, changes=("cluster.nodes=2", "run.steps=3"))
    (tmp_path / "it.yaml").write_text(to_yaml(spec))
    assert (
        load_scenario(tmp_path / "it.yaml")
        == load_scenario(preset_path(name), spec.changes)
        == scenario(spec)
    )


def test_a_command_writes_the_whole_text_into_this_folder():
    spec = Spec(text="name: '../../x; rm'\n" + GOOD.partition("\n")[2] + "# |\n")
    assert file_stem(spec) == "x-rm"
    ends = Spec(text=GOOD, changes=('name="a\\nEOF\\nb"',))
    assert to_command(ends, "x").startswith("cat > x.yaml <<'EOF")


@pytest.mark.parametrize(
    ("changes", "title"),
    [
        ((), "ResNet-50 · 32 x V100 · 25 GbE"),
        (("cluster.nodes=8", "cluster.network.nic=10GbE"), "ResNet-50 · 64 x V100 · 10 GbE"),
        (("cluster.nodes=1", "workload.model=llama3-8b"), "Llama 3 8B · 8 x V100 · one node"),
        (("cluster.network.nic=null",), "ResNet-50 · 32 x V100 · InfiniBand EDR"),
        (("cluster.gpu=a100-sxm-80gb",), "ResNet-50 · 32 x A100 · 25 GbE"),
    ],
)
def test_title_and_file_name_come_from_the_scenario(changes, title):
    spec = Spec("resnet50-32-v100-25gbe", changes=changes)
    assert titles.title(scenario(spec)) == title
    assert titles.origin(spec) == ("from ResNet-50 on 32 V100" if changes else "")
    if changes:
        assert to_yaml(spec, file_stem(spec)).startswith(f"name: {file_stem(spec)}\n")
        assert file_stem(spec) == title.lower().replace(" · ", "-").replace(" ", "-")


text = st.text(st.characters(blacklist_categories=("Cs",)), max_size=40)
changes = st.lists(text.filter(bool), max_size=3).map(tuple)
presets = st.builds(Spec, st.sampled_from(preset_names()), st.none(), changes=changes)
specs = presets | st.builds(Spec, st.none(), text, text.filter(bool), changes)


@given(
    specs,
    st.lists(specs, max_size=MOST_COMPARED).map(tuple),
    st.dictionaries(st.sampled_from(["compare", "vary"]), text, max_size=2),
    st.none() | changes,
)
def test_an_address_holds_the_whole_view(spec, compared, choices, before):
    view = View(spec, compared, choices, before)
    query = parse_qs(urlencode(view.to_query(), doseq=True), keep_blank_values=True)
    assert View.from_query(query, Spec("another")) == view


def test_changes_without_a_preset_apply_to_the_first():
    view = View.from_query({"set": ["cluster.nodes=2"]}, Spec("first"))
    assert view.spec == Spec("first", changes=("cluster.nodes=2",))


@pytest.mark.parametrize("packed", ["xx", "!!", Spec(text=GOOD).to_query()["yaml"][0][:-8]])
def test_an_address_that_was_cut_is_refused(packed):
    with pytest.raises(DpsimError, match="address holds a scenario that cannot be read"):
        View.from_query({"yaml": [packed]}, Spec("another"))


def test_an_address_unpacks_no_more_than_the_limit():
    query = Spec(text="#" * (MOST_BYTES + 1)).to_query()
    with pytest.raises(DpsimError, match="must have at most 1,048,576 bytes"):
        View.from_query(query, Spec("another"))


def test_a_change_replaces_earlier_ones_there_and_below_and_no_others():
    spec = Spec(
        "p",
        changes=(
            "cluster.node=a",
            "cluster.nodes=2",
            "disturbance.slow=[{}]",
            "disturbance.slow[0].factor=2",
        ),
    )
    assert spec.with_value("cluster.node", "b").changes[-1] == "cluster.node=b"
    assert "cluster.nodes=2" in spec.with_value("cluster.node", "b").changes
    assert spec.without("disturbance.slow").changes == ("cluster.node=a", "cluster.nodes=2")


def test_a_document_has_the_places_of_the_preset_file():
    assert str(document(Spec(preset_names()[0])).root.at(("cluster", "nodes")).place).endswith(
        ".yaml:6:10"
    )
