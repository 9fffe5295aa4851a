"""The first page.

Its numbers are the library's, knobs change them, each has its change from a baseline, and the
limits of the step are listed.
"""

from dataclasses import replace
from html import unescape
from threading import Event

import pytest
from app_pages import QUICK, charts, html, metrics, settled
from streamlit.testing.v1 import AppTest

from app import forms, state, waiting
from app.answers import PATH, answer, explained, scaled
from app.headline import numbers
from app.pages_ import what_if
from app.presets import FIRST, preset_path
from app.reading import scenario
from app.spec import Spec
from app.words import kind_words
from app.work import CancelledError
from dpsim.base.units import TIME, human
from dpsim.engine import simulate
from dpsim.scenario import load_scenario
from dpsim.studies.explain import KNOBS, explain, verdict

SMALL = "resnet50-16-v100-local-sgd"
TINY = """
cluster: {nodes: 2, node: single-gpu, network: {fabric: single-switch, nic: 10GbE}}
workload: {model: resnet18, batch_per_gpu: 8}
run: {steps: 2, warmup: 0}
"""


def shown(page):
    return {label: value for label, (value, _) in metrics(page).items()}


def predicted(preset, *changes):
    return {
        number.name: number.text
        for number in numbers(simulate(load_scenario(preset_path(preset), changes)))
    }


@pytest.mark.parametrize("known", [True, False])
def test_a_change_keeps_the_factor_fitted_to_a_measured_step(open_page, known):
    page = open_page(
        "what_if", parts=["Model and batch"], preset="resnet50-256-p100-50gbe", set=list(QUICK)
    )
    before = metrics(page)["step time"]
    if not known:
        state.tasks.cache_clear()
    page.number_input(key="set workload.batch_per_gpu").set_value(64).run()
    settled(page)
    # Twice the samples take longer than the step that was measured with half of them.
    assert float(metrics(page)["step time"][0].split()[0]) > 1.4 * float(before[0].split()[0])
    (fitted,) = [each for each in page.query_params["set"] if each.startswith("calibration=")]
    assert "fitted to Goyal et al. 2017" in fitted


def test_the_first_page_shows_the_first_preset_as_the_library_predicts_it(open_page):
    assert shown(open_page("what_if", wait=False)) == predicted(FIRST)


def test_a_knob_changes_the_numbers_and_the_address(open_page):
    page = open_page("what_if", wait=False, preset=SMALL)
    page.select_slider(key="set cluster.nodes").set_value("4").run()
    assert shown(page) == predicted(SMALL, "cluster.nodes=4")
    assert page.query_params["set"] == "cluster.nodes=4"


def test_another_kind_drops_the_fields_of_the_previous_one(open_page):
    wanted = [*QUICK, "strategy.sync.every=4"]
    page = open_page("what_if", wait=False, parts=["Sync"], preset=SMALL, set=wanted)
    page.selectbox(key="kind strategy.sync").select("bsp").run()
    assert not page.error
    assert page.query_params["set"] == [*QUICK, "strategy.sync.kind=bsp"]


def test_every_number_has_its_change_from_the_previous_state(open_page):
    page = open_page("what_if", wait=False, preset=SMALL, set=["cluster.nodes=8"], was="")
    before, after = (
        simulate(load_scenario(preset_path(SMALL), sets)) for sets in ([], ["cluster.nodes=8"])
    )
    change = after.step_time_s["mean"] / before.step_time_s["mean"] - 1
    was = human(before.step_time_s["mean"], TIME, 3)
    arrow = "▲" if change > 0 else "▼"
    assert metrics(page)["step time"][1].startswith(f"{arrow} {change:+.1%} from {was}")
    assert all(delta for label, (_, delta) in metrics(page).items() if "cost" not in label)


def test_each_change_is_named_and_compared_with_the_previous_state(open_page, monkeypatch):
    monkeypatch.setattr(state, "GLANCE", 0.0)
    page = open_page("what_if", preset=SMALL, set=QUICK)
    assert all(delta is None for _, delta in metrics(page).values())
    page.select_slider(key="set cluster.nodes").set_value("8").run()
    before = shown_before = metrics(page)["step time"]
    assert "from" in before[1]
    assert "Changed last: nodes 16 to 8." in html(page)
    page.select_slider(key="set cluster.nodes").set_value("4").run()
    assert f" from {shown_before[0]}" in metrics(page)["step time"][1]
    assert "Changed last: nodes 8 to 4." in html(page)
    assert "Changed from the set-up: nodes 16 to 4" in html(page)


def test_quick_changes_in_a_row_are_compared_with_the_state_before_the_first(
    open_page, monkeypatch
):
    page = open_page("what_if", preset=SMALL, set=QUICK)
    page.select_slider(key="set cluster.nodes").set_value("8").run()
    monkeypatch.setattr(state, "GLANCE", 60.0)
    page.select_slider(key="set cluster.nodes").set_value("4").run()
    assert "Changed last: nodes 16 to 4." in html(page)


def test_changes_are_grey_within_the_noise_and_between_models(open_page):
    noisy = open_page("what_if", preset=FIRST, set=["run.seed=1"], was="", wait=False)
    assert 'dp-delta">' in html(noisy)
    assert "within the noise" in metrics(noisy)["step time"][1]
    other = open_page("what_if", preset=FIRST, set=["workload.model=resnet18"], was="", wait=False)
    assert "from" in metrics(other)["step time"][1]
    assert "dp-delta good" not in html(other)
    assert "dp-delta bad" not in html(other)


def test_the_step_has_its_interval_and_the_reason_for_a_wide_one(open_page):
    page = open_page("what_if", preset=SMALL, set=QUICK)
    result = simulate(load_scenario(preset_path(SMALL), QUICK))
    low, high = (human(end, TIME, 3) for end in (result.interval.low, result.interval.high))
    assert f'dp-within">{low} to {high}</div>' in html(page)
    assert "dp-band" in html(page)
    assert html(page).count('aria-live="polite"><dt>step time</dt>') == 1
    assert ("wide: " in html(page)) == (result.interval.high > 2 * result.interval.low)


def test_an_mfu_above_the_peak_is_noted():
    result = simulate(load_scenario(preset_path(SMALL), QUICK))
    use = replace(result.utilisation, mfu=1.21)
    more = next(each for each in numbers(SimpleResult(result, use)) if each.name == "MFU")
    assert "more than its peak" in more.note


class SimpleResult:
    """A result with another utilisation."""

    def __init__(self, result, utilisation):
        self._result, self.utilisation = result, utilisation

    def __getattr__(self, name):
        return getattr(self._result, name)


@pytest.mark.parametrize(
    ("gpu", "count", "nodes"), [("h100-sxm", 64, 8), ("b200", 4, 1), ("rtx-4090", 7, 1)]
)
def test_a_scenario_is_entered_by_model_gpu_and_count(open_page, gpu, count, nodes):
    page = open_page("what_if", preset="resnet50-256-p100-50gbe", set=QUICK, wait=False)
    page.selectbox(key="entry model").set_value("vgg16").run()
    page.selectbox(key="entry GPU").set_value(gpu).run()
    page.number_input(key="entry count").set_value(count).run()
    assert not page.exception
    requested = Spec("resnet50-256-p100-50gbe", changes=tuple(page.query_params["set"]))
    given = scenario(requested)
    assert (given.cluster.ranks, given.cluster.nodes) == (count, nodes)
    assert given.cluster.accelerator.name == gpu
    assert given.build_model().name == "vgg16"


def test_a_link_reproduces_the_change_in_another_session(open_page, monkeypatch):
    monkeypatch.setattr(state, "GLANCE", 0.0)
    page = open_page("what_if", preset=SMALL, set=QUICK)
    for nodes in ("8", "4"):
        page.select_slider(key="set cluster.nodes").set_value(nodes).run()
    address = dict(page.query_params)
    theirs = open_page("what_if", **address)
    assert metrics(theirs) == metrics(page)
    assert metrics(theirs)["step time"][1] is not None
    assert "Changed last: nodes 8 to 4." in html(theirs)


def test_another_set_up_is_not_compared_with_the_one_before(open_page):
    page = open_page("what_if", preset=SMALL, set=QUICK)
    page.query_params["preset"] = "resnet50-8-v100-asynchronous"
    page.run()
    assert all(delta is None for _, delta in metrics(page).values())


def test_a_late_address_of_the_browser_undoes_no_change(open_page):
    """It may send what was entered, or ask for more, with the address that it had before."""
    page = open_page("what_if", preset=SMALL, set=QUICK)
    old = dict(page.query_params)
    for nodes in ("8", "4"):
        page.query_params = dict(old)
        page.select_slider(key="set cluster.nodes").set_value(nodes).run()
        assert page.select_slider(key="set cluster.nodes").value == nodes
    assert page.query_params["set"] == [*QUICK, "cluster.nodes=4"]
    # One that is gone back to later is what its user wants to see.
    page.query_params = dict(old)
    page.run()
    assert page.select_slider(key="set cluster.nodes").value == "16"


def test_an_automatic_rerun_ignores_the_old_address():
    def script():
        import streamlit as st

        from app import state

        if st.session_state.pop("work has ended", False):
            state.run_again()
        state.load()
        state.write_address()
        st.button("8 nodes", key="8", on_click=state.change, args=("cluster.nodes", "8"))

    page = AppTest.from_function(script, default_timeout=60)
    page.query_params["preset"] = SMALL
    page.run()
    old = dict(page.query_params)
    page.button(key="8").click().run()
    new = dict(page.query_params)
    assert new["set"] == "cluster.nodes=8"
    page.query_params = dict(old)
    page.session_state["work has ended"] = True
    page.run()
    assert dict(page.query_params) == new


def test_the_verdict_is_that_of_the_library(open_page):
    page = open_page("what_if", preset=SMALL, set=QUICK)
    assert verdict(simulate(load_scenario(preset_path(SMALL), QUICK))) in unescape(html(page))


def test_names_from_files_are_escaped(open_page):
    hostile = "name: '<img src=//evil.example/x>'\n" + TINY
    query = Spec(text=hostile, file="![x](//evil.example/y).yaml").to_query()
    page = open_page("what_if", **query)
    assert "<img" not in html(page)
    assert "&lt;img src=//evil.example/x&gt;" in html(page)


def test_a_scenario_that_does_not_fit_shows_memory_and_remedies(open_page):
    page = open_page("what_if", preset=FIRST, set=[*QUICK, "workload.batch_per_gpu=512"])
    assert not page.error
    assert "It does not fit: each V100-SXM2-16GB has 16.9 GB" in html(page)
    assert charts(page) == 1
    ways = [each for each in page.button if (each.key or "").startswith("way ")]
    assert any("16.9 GB, **" in each.label and "time per sample" in each.label for each in ways)
    first = next(each for each in ways if not each.disabled)
    first.click().run()
    settled(page)
    assert metrics(page)["step time"]


def test_a_scenario_that_does_not_fit_can_be_simulated_anyway(open_page):
    page = open_page("what_if", preset=FIRST, set=[*QUICK, "workload.batch_per_gpu=512"])
    page.button(key="simulate anyway").click().run()
    settled(page)
    assert metrics(page)["step time"]
    assert "It does not fit" in html(page)


def test_limits_have_the_three_best_changes_and_each_can_be_tried(open_page):
    page = open_page("what_if", limits=True, preset=SMALL, set=["run.steps=8", "run.warmup=0"])
    tries = [each for each in page.button if (each.key or "").startswith("try ")]
    assert len(tries) == 3
    assert any("Critical path of a typical step" in text.value for text in page.markdown)
    before = simulate(
        load_scenario(preset_path(SMALL), ["run.steps=8", "run.warmup=0"])
    ).throughput_samples_per_s
    tries[0].click().run()
    settled(page)
    assert float(shown(page)["samples / s"].replace(",", "")) > before


def test_the_search_for_limits_stops_during_a_knob(open_page):
    calls = []

    def report(done, total):
        calls.append(done)
        if len(calls) == 3:
            raise CancelledError

    with pytest.raises(CancelledError):
        explained(Spec(SMALL), report)
    assert calls == [0, 0, 0]


def test_each_knob_is_reported_when_done_with_the_numbers_of_the_command():
    reported, done = {}, []

    def report(turned, total, found=None):
        if found:
            reported.update(found)
            done.append((turned, total))

    spec = Spec(SMALL, changes=QUICK)
    found = explained(spec, report)
    assert next(iter(reported)) == next(iter(found)) == PATH
    assert done == [(turned, len(KNOBS)) for turned in range(len(KNOBS) + 1)]
    command = explain(load_scenario(preset_path(SMALL), QUICK)).to_json()
    assert [each for name, each in found.items() if name != PATH] == command["knobs"]
    # Reasons compare knobs with one another, when all are known.
    unexplained = {name: {**each, "why": reported[name].get("why")} for name, each in found.items()}
    assert {**unexplained, PATH: found[PATH]} == reported


def test_intermediate_results_are_shown(open_page, monkeypatch):
    reported, held = Event(), Event()

    def explained_in_part(spec, report):
        row = {"change": "a faster network", "change_per_sample": -0.25, "set": ["run.seed=1"]}
        report(0, 2, {PATH: {"compute": 1.0}})
        report(1, 2, {"network": row})
        reported.set()
        held.wait(60)
        report(1, 2)

    monkeypatch.setattr(what_if, "explained", explained_in_part)
    page = open_page("what_if", wait=False, limits=True, preset=SMALL, set=QUICK)
    assert reported.wait(60)
    page.run()
    shown_in_part = [each.label for each in page.button if (each.key or "").startswith("try ")]
    held.set()
    assert shown_in_part == ["a faster network: **-25%** time per sample"]
    assert any("Critical path of a typical step: 100%" in text.value for text in page.markdown)


def test_the_first_run_of_a_session_lets_the_browser_draw_the_numbers_before_the_charts(open_page):
    page = open_page("what_if", wait=False, preset=SMALL, set=QUICK)
    assert charts(page) == 4
    page.session_state[waiting.DRAWN] = False
    page.run()
    assert metrics(page)
    assert charts(page) == 0
    settled(page.run())
    assert charts(page) == 4


def test_an_invalid_value_is_reported_and_can_be_undone(open_page):
    page = open_page("what_if", wait=False, parts=["Overlap"], preset=FIRST, set=QUICK)
    page.text_input(key="set strategy.overlap.bucket_size").set_value("25 parsecs").run()
    assert "bucket_size" in page.error[0].value
    assert "'parsecs' is not known" in page.error[0].value
    page.button(key="undo").click().run()
    assert not page.error
    assert page.query_params["set"] == list(QUICK)


def test_an_unknown_fabric_is_only_an_error_on_the_page(open_page):
    page = open_page("what_if", wait=False, preset=FIRST, set=["cluster.network.fabric=maze"])
    assert "maze" in page.error[0].value
    assert not page.exception
    assert page.number_input(key="set workload.batch_per_gpu").value == 64


def test_incompatible_values_are_reported(open_page):
    page = open_page(
        "what_if", wait=False, preset="gpt3-1.3b-16-a100-fsdp", set=["strategy.sync.kind=asp"]
    )
    assert "is not possible" in page.error[0].value
    assert not page.exception


def test_every_registered_kind_can_be_chosen(open_page):
    parts = ("Aggregation", "Sync", "Overlap", "Compression")
    page = open_page("what_if", wait=False, parts=parts, preset=SMALL, set=QUICK)
    for part in parts:
        path = f"strategy.{part.lower()}"
        offered = page.selectbox(key=f"kind {path}").options
        assert offered == [kind_words(kind) for kind in forms.union(path).kinds]


def test_the_sidebar_has_six_knobs_and_a_switch_for_all(open_page):
    page = open_page("what_if", wait=False, preset=FIRST, set=QUICK)
    kinds = ("selectbox", "select_slider", "number_input", "text_input", "toggle")

    def knobs():
        widgets = [each for kind in kinds for each in getattr(page.sidebar, kind)]
        return {each.key for each in widgets if each.key.startswith(("set ", "kind "))}

    assert knobs() == {
        "set cluster.nodes",
        "set cluster.network.nic",
        "set workload.batch_per_gpu",
        "kind strategy.aggregation",
        "kind strategy.sync",
        "kind strategy.overlap",
    }
    page.selectbox(key="set cluster.network.nic").select("efa-100g").run()
    assert "cluster.network.nic=efa-100g" in page.query_params["set"]
    page.toggle(key="all knobs").set_value(True).run()
    assert "set cluster.gpu" in knobs()
    assert not page.exception


def test_slow_workers_are_switched_on_and_off(open_page):
    wanted = [*QUICK, "strategy.sync.kind=bsp"]
    page = open_page("what_if", wait=False, parts=["Stragglers"], preset=SMALL, set=wanted)
    before = shown(page)["step time"]
    page.toggle(key="entry disturbance.slow").set_value(True).run()
    assert shown(page)["step time"] != before
    page.number_input(key="set disturbance.slow[0].factor").set_value(4.0).run()
    assert page.query_params["set"][-1] == "disturbance.slow[0].factor=4.0"
    page.toggle(key="entry disturbance.slow").set_value(False).run()
    assert shown(page)["step time"] == before


def test_set_ups_can_be_searched(open_page):
    page = open_page("what_if", preset=SMALL, set=QUICK)
    page.session_state["search set-ups"] = "llama fully sharded"
    page.button(key="all set-ups").click().run()
    cards = [each.key for each in page.button if (each.key or "").startswith("open ")]
    assert cards == ["open llama3-8b-8-h100-fsdp"]
    page.button(key=cards[0]).click().run()
    assert page.query_params["preset"] == "llama3-8b-8-h100-fsdp"


def test_a_simulated_scenario_that_does_not_fit_has_remedies(open_page):
    page = open_page(
        "what_if",
        preset="llama3-8b-8-h100-fsdp",
        set=[*QUICK, "workload.batch_per_gpu=16"],
    )
    assert "It does not fit" in html(page)
    assert "step time" in metrics(page)
    pressed = [button.label for button in page.button if (button.key or "").startswith("way ")]
    assert pressed
    assert all("time per sample" in label for label in pressed)
    assert not [button for button in page.button if button.key == "simulate anyway"]


def test_the_scaling_curve_simulates_only_other_numbers_of_nodes():
    spec = Spec("resnet50-32-v100-25gbe")
    own = answer(spec, lambda done, total: None).result
    found = scaled(spec, lambda done, total: None)
    others = [each.workers for each in found.values()]
    assert others
    assert own.workers not in others
