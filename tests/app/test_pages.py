"""Every page over every preset, without an exception and with its charts."""

import re

import pytest
from app_pages import EVERY_PART, QUICK, charts, html, settled

from app.presets import preset_names

PAGES = {
    "what_if": 4,
    "compare": 1,
    "topology": 1,
    "stragglers": 2,
    "convergence": 1,
    "algorithms": 0,
    "strategies": 2,
    "questions": 1,
    "own_files": 0,
}
CHOICES = {
    "compare": {"among-strategy.aggregation.algorithm": "ring,tree"},
    "stragglers": {"sync": "bsp,local-sgd"},
}

PAIRS = [(name, preset) for name in PAGES for preset in preset_names()]
# Every page over a preset or two, and every preset on a page; `make test-wide` has all of them on
# the first page.
OFTEN = {
    ([*PAGES][number % len(PAGES) - 1], preset) for number, preset in enumerate(preset_names())
}


def _marks(name, preset):
    if (name, preset) in OFTEN:
        return ()
    return pytest.mark.wide if name == "what_if" else pytest.mark.long


@pytest.mark.parametrize(
    ("name", "preset"),
    [pytest.param(*pair, marks=_marks(*pair), id="-".join(pair)) for pair in PAIRS],
)
def test_every_page_shows_every_preset(open_page, name, preset):
    parts = EVERY_PART if name == "what_if" else ()
    query = {"preset": preset, "set": QUICK}
    page = open_page(name, parts=parts, choices=CHOICES.get(name, {}), **query)
    assert not page.exception
    assert not page.error
    assert charts(page) >= PAGES[name]


@pytest.mark.parametrize(
    "view",
    [
        {"compare": "algorithm against message size", "algorithms": "ring,tree"},
        {"vary": "cluster.nodes"},
    ],
)
def test_the_other_views_of_compare(open_page, view):
    page = open_page(
        "compare",
        preset="resnet50-16-v100-local-sgd",
        set=(*QUICK, "cluster.nodes=2"),
        choices=view,
    )
    assert not page.exception
    assert charts(page) == 1


def test_titles_of_presets_differ_also_when_shortened():
    from app.presets import about, short

    assert len({about(name) for name in preset_names()}) == len(preset_names()) == 13
    assert len({short(name) for name in preset_names()}) == 13
    assert max(len(short(name)) for name in preset_names()) <= 30


def test_the_verdict_names_the_fastest_and_its_lead(open_page):
    page = open_page(
        "compare", preset="resnet50-16-v100-local-sgd", set=QUICK, choices=CHOICES["compare"]
    )
    (message,) = re.findall('dp-verdict">(.*?)</p>', html(page))
    table = page.dataframe[0].value
    first, second = table[""]
    rates = [float(rate.replace(",", "")) for rate in table["samples/s"]]
    more = rf"{first} is the fastest, .* samples/s: (.*)% more than {second} \(within the noise\)\."
    found = re.fullmatch(more, message)
    # The table has four digits.
    assert float(found[1]) == pytest.approx(100 * (rates[0] / rates[1] - 1), abs=0.2)


def test_equally_fast_values_are_both_named(open_page):
    single = [*QUICK, "cluster.nodes=1", "cluster.node=single-gpu"]
    page = open_page(
        "compare", preset="resnet50-16-v100-local-sgd", set=single, choices=CHOICES["compare"]
    )
    (message,) = re.findall('dp-verdict">(.*?)</p>', html(page))
    assert re.fullmatch(r"(ring and tree|tree and ring) are the fastest, .* samples/s\.", message)


def test_the_reason_for_a_missing_result_has_its_label_and_no_option_names(open_page):
    page = open_page(
        "stragglers", preset="llama3-8b-8-h100-fsdp", set=QUICK, choices={"sync": "bsp,local-sgd"}
    )
    (message,) = [each.value for each in page.caption if "is not possible" in each.value]
    assert message.startswith("local SGD: strategy: aggregation sharded with sync local-sgd ")
    # With only BSP there are no stale gradients to draw.
    assert charts(page) == 2


@pytest.mark.parametrize(
    ("vary", "chosen"),
    [
        ("cluster.network.nic", "among-cluster.network.nic=ethernet-10g,ethernet-100g"),
        ("cluster.gpu", "among-cluster.gpu=v100-sxm2-16gb,h100-sxm"),
        ("workload.batch_per_gpu", "among-workload.batch_per_gpu=32,64"),
        ("strategy.overlap.bucket_size", "among-strategy.overlap.bucket_size=5 MB,100 MB"),
    ],
)
def test_a_usual_knob_is_compared_and_a_value_can_be_used(open_page, vary, chosen):
    name, _, values = chosen.partition("=")
    page = open_page(
        "compare",
        preset="resnet50-32-v100-25gbe",
        set=QUICK,
        choices={"vary": vary, name: values},
    )
    assert not page.exception
    assert len(page.dataframe[0].value) >= 2
    page.button(key=f"use {values.split(',')[1]}").click().run()
    assert len(page.query_params["set"]) > len(QUICK)


@pytest.mark.parametrize(
    ("knob", "written", "rows"),
    [
        ("workload.execution", None, 4),
        ("cluster.network.in_network_reduction", None, 2),
        ("workload.gradient_accumulation", "1, 2, 4", 3),
        ("run.seed", None, 1),  # the scenario's own is among them, also where it is 0
        ("cluster.network.nics_per_node", "1, 8", 2),
        ("disturbance.jitter.sigma", "0.01, 0.2", 2),
    ],
)
def test_any_other_knob_is_compared_over_choices_or_entered_values(open_page, knob, written, rows):
    lognormal = ("disturbance.jitter.kind=lognormal", *QUICK)
    choices = {"vary": knob}
    page = open_page("compare", preset="resnet50-32-v100-25gbe", set=lognormal, choices=choices)
    if written is not None:
        page = settled(page.text_input[0].set_value(written).run())
    assert not page.exception
    assert page.selectbox(key="choice vary").value == knob
    assert len(page.dataframe[0].value) == rows


def test_an_invalid_value_is_refused_beside_the_valid_ones(open_page):
    choices = {"vary": "workload.gradient_accumulation"}
    page = open_page("compare", preset="resnet50-32-v100-25gbe", set=QUICK, choices=choices)
    page = settled(page.text_input[0].set_value("1, many").run())
    assert not page.exception
    assert len(page.dataframe[0].value) == 1
    message = " ".join(each.value for each in (*page.caption, *page.error, *page.warning))
    assert "many: gradient accumulation must be an integer, but got 'many'" in message


def test_the_verdict_on_stragglers_has_the_kept_throughput_and_the_staleness(open_page):
    page = open_page(
        "stragglers",
        preset="resnet50-16-v100-local-sgd",
        set=(*QUICK, "run.steps=8", "cluster.nodes=4"),
        choices={"sync": "bsp,asp"},
    )
    (message,) = re.findall('dp-verdict">(.*?)</p>', html(page))
    assert re.search(
        r"ASP is the fastest, .*; it keeps \d+% of its throughput without stragglers", message
    )
    assert re.search(r"up to \d+ steps apart, and gradients up to \d+ updates late", message)
    assert any("ASP without parameter servers" in each.value for each in page.caption)


def test_without_a_compatible_synchronisation_no_list_is_shown(open_page):
    """Rather than a list that nobody can open."""
    page = open_page("convergence", preset="llama3-8b-8-h100-fsdp", set=QUICK)
    assert not page.multiselect
    assert any("No other synchronisation" in caption.value for caption in page.caption)
