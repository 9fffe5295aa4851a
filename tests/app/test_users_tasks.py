"""Eight tasks as users do them: by what stands on the page, in as few actions as they take today.

Each begins at the first page. An action is a click, a choice from a list or an entry in a field.
The outcome is what `dpsim` computes from the same scenario.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from app_pages import PATIENCE
from gone import soon
from playwright.sync_api import expect
from typer.testing import CliRunner

from app.headline import numbers
from app.presets import FIRST, preset_path
from dpsim import cli
from dpsim.base.units import RATE, TIME, amount, human, parse
from dpsim.collectives import algorithm
from dpsim.engine import simulate
from dpsim.network import MessageCosts, schedule_on
from dpsim.scenario import load_scenario
from dpsim.studies.walkthrough import walk_through
from dpsim.topology import UniformSwitch

pytestmark = pytest.mark.browser

LLAMA = "llama3-8b-8-h100-fsdp"
QUICK = ("run.steps=2", "run.warmup=0")
SWITCH = UniformSwitch(4, parse("25 Gb/s", RATE), parse("1 us", TIME))


class User:
    """Acts on a page, and counts the actions."""

    def __init__(self, page):
        self.page, self.actions = page, 0

    def press(self, name, role="button"):
        self.page.get_by_role(role, name=name, exact=True).click()
        self._acted()

    def press_icon(self, name, last=False):
        """Press a button whose name has its icon before its words."""
        found = self.page.get_by_role("button", name=name)
        (found.last if last else found).click()
        self._acted()

    def choose(self, label, option):
        field = self.page.get_by_role("combobox", name=label, exact=True)
        field.click()
        field.fill(option)  # long lists have only some of their options in the page
        self.page.get_by_role("option", name=option, exact=True).click()
        self._acted()

    def enter(self, label, text):
        field = self.page.get_by_label(label, exact=True)
        field.fill(text)
        field.press("Enter")
        self._acted()

    def compare(self):
        self.press_icon("Add to comparison")
        done = self.page.get_by_role("button", name="Remove from comparison")
        # Streamlit may lose a click that comes while a part of its page asks to run again.
        if not soon(done.is_visible, 20):
            self.page.get_by_role("button", name="Add to comparison").click()
        done.wait_for()

    def reads(self, title):
        expect(self.page.get_by_role("heading", level=1)).to_contain_text(title, timeout=PATIENCE)
        # Streamlit takes a field that the browser has not drawn anew yet for one that was changed.
        self.page.wait_for_selector("[data-test-script-state=notRunning]")

    def _acted(self):
        self.actions += 1

    def sees_table(self, rows):
        """Wait for a table with so many rows below its head."""
        grid = self.page.get_by_role("grid", include_hidden=True)
        expect(grid.get_by_role("row", include_hidden=True)).to_have_count(
            rows + 1, timeout=PATIENCE
        )


@pytest.fixture
def user(tab, address):
    """A user at the first page, of a wide screen; a run has few steps there."""
    tab.emulate_media(color_scheme="light")
    tab.set_viewport_size({"width": 1600, "height": 1000})
    tab.goto("about:blank")
    tab.goto(f"{address}/?{'&'.join(f'set={each}' for each in QUICK)}")
    # Streamlit loses a change of page that comes while its page runs again by itself.
    tab.get_by_role("figure", name="Breakdown of").wait_for()
    return User(tab)


def ran(command, *sets, preset=FIRST):
    """What the command prints as JSON for a preset with values set."""
    options = [each for pair in sets for each in ("--set", pair)]
    result = CliRunner().invoke(cli.app, [command, str(preset_path(preset)), *options, "--json"])
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


def columns(page):
    """By the name of each row of the comparison its cells."""
    rows = page.get_by_role("table").get_by_role("row")
    cells = [row.get_by_role("cell").all_inner_texts() for row in rows.all()]
    heads = rows.get_by_role("rowheader").all_inner_texts()
    return dict(zip(heads, cells[1:], strict=True))


def rows(page, one):
    """By its first cell each row of the table that has ``one``: its hidden cells by their heads."""
    hidden = page.get_by_role("grid", include_hidden=True)
    cells = hidden.get_by_role("gridcell", include_hidden=True)
    cells.get_by_text(one, exact=True).wait_for(state="attached")
    heads = hidden.get_by_role("columnheader", include_hidden=True).all_inner_texts()
    found = {}
    for row in hidden.get_by_role("row", include_hidden=True).all():
        cells = row.get_by_role("gridcell", include_hidden=True).all_inner_texts()
        if cells:
            found[cells[0]] = dict(zip(heads[-len(cells) :], cells, strict=True))
    return found


def step_of(result):
    return human(result["step_time_s"]["mean"], TIME, 3)


def test_llama_is_compared_on_8_64_and_512_gpus_in_one_table(user):
    user.choose("set-up", "Llama 3 8B on 8 H100")
    user.reads("8 x H100")
    user.compare()
    for count in (64, 512):
        user.enter("GPUs in all", str(count))
        user.reads(f"{count} x H100")
        user.compare()
    expect(user.page.get_by_role("columnheader")).to_have_count(3, timeout=PATIENCE)
    found = columns(user.page)
    assert [*found][:2] == ["nodes", "step time"]
    assert found["nodes"] == ["1", "8", "64"]
    assert found["fits"] == ["yes"] * 3
    for place, nodes in enumerate(found["nodes"]):
        result = simulate(load_scenario(preset_path(LLAMA), [f"cluster.nodes={nodes}"]))
        for number in numbers(result):
            assert found[number.name][place].startswith(number.text)
    assert user.actions <= 6


def test_resnet_is_compared_on_10_25_and_100_gbit_s(user):
    user.press_icon("compare values of network card")
    found = rows(user.page, "10 GbE")
    for rate in (10, 25, 100):
        result = ran("run", *QUICK, f"cluster.network.nic=ethernet-{rate}g")
        assert found[f"{rate} GbE"]["samples/s"] == amount(result["throughput_samples_per_s"])
    assert user.actions <= 1


def test_one_slow_gpu_under_four_kinds_of_synchronisation(user):
    user.press("Synchronise", "link")
    user.press("Remove backup workers")
    user.page.get_by_label("Selected values").get_by_text("backup workers").wait_for(state="hidden")
    user.sees_table(4)
    found = rows(user.page, "ASP")
    kinds = {"BSP": "bsp", "SSP": "ssp", "ASP": "asp", "local SGD": "local-sgd"}
    assert {*found} == {*kinds}
    slow = "disturbance.slow=[{workers: [0], factor: 2}]"
    for name, kind in kinds.items():
        result = ran("run", *QUICK, slow, f"strategy.sync.kind={kind}")
        assert found[name]["samples/s"] == amount(result["throughput_samples_per_s"])
    assert user.actions <= 2


def test_ring_tree_and_butterfly_are_stepped_side_by_side(user):
    user.press("Learn", "link")
    names = ("ring", "tree", "butterfly")
    shown = [
        user.page.get_by_role("region", name=f"{name} all-reduce of 4 ranks") for name in names
    ]
    for each in shown:
        expect(each).to_contain_text("round 1 of ", timeout=PATIENCE)
    user.press("next round")
    for name, each in zip(names, shown, strict=True):
        expect(each).to_contain_text("round 2 of ", timeout=PATIENCE)
        schedule = schedule_on(SWITCH, algorithm(name, "all-reduce"))
        rounds = walk_through(schedule, 2**20, SWITCH, MessageCosts()).rounds
        expect(each).to_contain_text(f"round 2 of {len(rounds)}")
    in_a_row = soon(lambda: len({each.bounding_box()["y"] for each in shown}) == 1, 30)
    assert in_a_row, [each.bounding_box() for each in shown]
    assert user.actions <= 2


def test_the_best_bucket_size_is_named(user):
    user.press("Compare", "link")
    user.choose("vary", "bucket size")
    found = rows(user.page, "25 MB")
    rates = {}
    for size in found:
        result = ran("run", *QUICK, f"strategy.overlap={{kind: buckets, bucket_size: {size}}}")
        rates[size] = result["throughput_samples_per_s"]
        assert found[size]["samples/s"] == amount(rates[size])
    best = max(rates, key=rates.get)
    assert {"1 MB", "25 MB", "100 MB"} <= {*rates}
    user.page.get_by_text(f"{best} is the fastest").wait_for()
    assert user.actions <= 2


@pytest.mark.wide
def test_accuracy_is_shown_for_several_batches(user):
    user.press("Synchronise", "link")
    user.press("Convergence", "link")
    user.press("batches", "radio")
    user.sees_table(5)
    found = rows(user.page, "batch 32")
    assert [*found] == [f"batch {batch}" for batch in (2, 4, 8, 16, 32)]
    for batch in (8, 32):
        sets = (f"replay.batch={batch}", f"replay.steps={300 * 8 // batch}")
        result = ran("converge", *QUICK, *sets)
        assert found[f"batch {batch}"]["final accuracy"] == f"{result['final_accuracy']:.1%}"
    assert user.actions <= 3


def test_a_shared_command_gives_the_same_number(user, tmp_path):
    page = user.page
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    user.enter("GPUs in all", "64")
    user.reads("64 x V100")
    user.press_icon("Share")
    page.get_by_text("dpsim run").hover()
    user.press_icon("Copy", last=True)
    command = page.evaluate("navigator.clipboard.readText()")
    assert "/" not in command
    programs = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    printed = subprocess.run(
        ["sh", "-c", f"{command} --json"],
        cwd=tmp_path,
        env={**os.environ, "PATH": programs},
        capture_output=True,
        text=True,
        check=True,
    )
    shown = page.locator("dt:has-text('step time') + dd")
    expect(shown).to_contain_text(step_of(json.loads(printed.stdout)))
    assert [path.name for path in tmp_path.iterdir()] == ["resnet-50-64-x-v100-25-gbe.yaml"]
    assert user.actions <= 3


def test_two_designs_are_compared_side_by_side(user):
    user.compare()
    user.choose("GPU", "H100-SXM")
    user.reads("32 x H100")
    user.compare()
    expect(user.page.get_by_role("columnheader")).to_have_count(2, timeout=PATIENCE)
    found = columns(user.page)
    steps = [ran("run", *QUICK, *sets) for sets in ((), ("cluster.node=dgx-h100",))]
    for cell, result in zip(found["step time"], steps, strict=True):
        assert cell.startswith(step_of(result))
    assert user.actions <= 3
