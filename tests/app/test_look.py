"""How pages look in a real browser: over presets, at every width, in both modes; what axe finds;
the keyboard.
"""

import os
import re
from importlib.resources import files
from itertools import product
from pathlib import Path

import pytest

from app import pages_
from app.presets import FIRST, preset_names
from dpsim.report.theme import SURFACES, contrast

pytestmark = pytest.mark.browser

FILES = sorted(Path(pages_.__file__).parent.glob("[a-z]*.py"))
# The first page last, since tests below look at it again.
PAGES = (*(file.stem for file in FILES if file.stem != "what_if"), "")
WIDTHS = (1440, 800, 390)
PRESETS = preset_names()
# So few steps that every knob is turned in a moment.
NARROW = ("", "llama3-8b-8-h100-fsdp&set=run.steps=2&set=run.warmup=0", 390)
# Every page over every preset at each width; of these few often: a narrow one, and with
# `make test-wide` a wide and a middle one.
OFTEN = {
    NARROW: (),
    ("topology", "gpt2-32-h100-sharp", 1440): pytest.mark.wide,
    ("stragglers", FIRST, 800): pytest.mark.wide,
}
CASES = [
    pytest.param(*case, marks=OFTEN.get(case, pytest.mark.long), id="-".join(map(str, case)))
    for case in [*product(PAGES, PRESETS, WIDTHS), NARROW]
]
BEYOND = """() => [...document.querySelectorAll("main *")]
  .filter((each) => !each.closest("[data-testid=stDataFrame], .dp-compared > *"))
  .filter((each) => each.getBoundingClientRect().right > innerWidth + 1)
  .filter((each) => getComputedStyle(each).visibility !== "hidden")
  .filter((each) => each.getBoundingClientRect().width > 0)
  .map((each) => `${each.tagName} ${each.getAttribute("class")} ${each.textContent.slice(0, 60)}`)
"""
CUT = """() => [...document.querySelectorAll(
    ":is(main, section) :is(p, dt, dd, h1, h2, h3, label, button)")]
  .filter((each) => each.clientWidth > 0 && each.scrollWidth > each.clientWidth + 1)
  .filter((each) => ["hidden", "clip"].includes(getComputedStyle(each).overflowX))
  .map((each) => each.innerText)
"""
CUT_IN_CHARTS = """() => [...document.querySelectorAll(".js-plotly-plot")].flatMap((chart) => {
  const own = chart.getBoundingClientRect();
  return [...chart.querySelectorAll(".main-svg text")]
    .filter((each) => each.textContent && getComputedStyle(each).opacity !== "0")
    .map((each) => [each.getBoundingClientRect(), each])
    .filter(([box]) => box.width > 0 && (box.left < own.left - 1 || box.right > own.right + 1
      || box.top < own.top - 1 || box.bottom > own.bottom + 1))
    .map(([box, each]) => `${each.textContent} of ${chart.closest("[aria-label]")?.getAttribute("aria-label")}`);
})
"""
EMPTY = """() => [...document.querySelectorAll(".js-plotly-plot")]
  .filter((chart) => chart.querySelector(
    ".cartesianlayer :is(.points, .lines, .text) :is(path, text)") === null)
  .map((chart) => chart.closest("[aria-label]")?.getAttribute("aria-label"))
"""
TAGS = """() => document.body.innerText.split("\\n").filter((line) => /<\\/?(sub|sup|br|b|i)>/.test(line))
"""
# Nothing at work, so often found so that what follows at once has begun by then: counted, as a
# browser that is busy does not look. Not at each frame, which would have frames drawn.
LOOK_EVERY = 50  # ms
AFTER_A_RUN, AFTER_A_MODE = 15, 5  # looks; another mode asks the server for nothing
SETTLED = """(looks) => {
  const still = document.querySelector("[data-testid=stMainBlockContainer]") !== null
    && document.querySelector("[data-test-script-state=notRunning]") !== null
    && document.querySelector("[data-stale=true]") === null
    && document.querySelector("[role=progressbar]") === null
    && document.getAnimations().every((each) => each.playState !== "running");
  window.dpStill = still ? (window.dpStill ?? 0) + 1 : 0;
  return window.dpStill >= looks;
}
"""
# What `color-mix` comes to, as axe reads colours: at any other it gives up contrast on all the page.
AS_AXE_READS = r"""() => {
  const mixed = /color\(srgb ([\d.e-]+) ([\d.e-]+) ([\d.e-]+)(?: \/ ([\d.e-]+))?\)/g;
  const rgba = (_, red, green, blue, alpha) =>
    `rgba(${[red, green, blue].map((each) => Math.round(255 * each))}, ${alpha ?? 1})`;
  const read = (value) => typeof value === "string" ? value.replace(mixed, rgba) : value;
  const styles = window.getComputedStyle;
  window.getComputedStyle = (...given) => new Proxy(styles(...given), {
    get: (style, name) => typeof style[name] === "function"
      ? (...more) => read(style[name](...more)) : read(style[name]),
  });
}
"""
# Without details of all that it finds nothing wrong with, which would take as long again.
AXE = "axe.run(document, {runOnly: ['wcag2a', 'wcag2aa'], resultTypes: ['violations']})"
GROUND = """(ground) =>
  getComputedStyle(document.querySelector(".stApp")).backgroundColor === ground"""


@pytest.fixture(scope="module")
def look(lax, address):
    """Opens a page in a mode and at a width, and waits until it has settled; with its errors.

    One that is there already, as it was opened, is not opened again.
    """
    errors, there = [], {}
    # A page below the first looks for its server beside itself before it looks above.
    lax.on(
        "console",
        lambda message: (
            errors.append(message.text)
            if message.type == "error" and "404 (Not Found)" not in message.text
            else None
        ),
    )
    lax.on("pageerror", lambda error: errors.append(str(error)))

    def opened(name, preset=FIRST, width=1440, more=""):
        wanted = f"{address}/{name}?preset={preset}{more}"
        lax.emulate_media(color_scheme="light", reduced_motion="no-preference")
        if there.get((wanted, width)) != lax.url:
            lax.goto("about:blank")
            errors.clear()
            lax.set_viewport_size({"width": width, "height": 1000})
            lax.goto(wanted)
            lax.wait_for_function(SETTLED, arg=AFTER_A_RUN, polling=LOOK_EVERY)
            there.clear()
            there[wanted, width] = lax.url
        return lax, errors

    return opened


@pytest.fixture(scope="module")
def axe():
    """What axe-core is in the browser."""
    try:
        return files("axe_core_python").joinpath("axe.min.js").read_text(encoding="utf-8")
    except ModuleNotFoundError:
        if os.environ.get("CI") == "true":
            pytest.fail("axe-core-python is not installed")
        pytest.skip("axe-core-python is not installed: pip install -e '.[dev]'")


@pytest.mark.parametrize(("name", "preset", "width"), CASES)
def test_pages_have_no_cut_text_overflow_errors_or_axe_violations(look, axe, name, preset, width):
    page, errors = look(name, preset, width)
    page.evaluate(axe)
    page.evaluate(AS_AXE_READS)
    assert faults(page) == {}
    page.emulate_media(color_scheme="dark")
    page.wait_for_function(GROUND, arg=rgb(SURFACES["dark"].background))
    page.evaluate("window.dpStill = 0")
    page.wait_for_function(SETTLED, arg=AFTER_A_MODE, polling=LOOK_EVERY)
    assert faults(page) == {}
    assert errors == []


def test_the_comparison_and_the_share_menu_have_no_faults_on_a_phone(look, axe):
    columns = "".join(f"&{place}-preset={preset}" for place, preset in enumerate(PRESETS[:6], 1))
    page, errors = look("topology", "resnet50-16-v100-local-sgd&set=run.steps=2", 390, columns)
    page.get_by_role("button", name="Share").click()
    page.wait_for_selector("text=download the picture")
    page.evaluate("window.dpStill = 0")
    page.wait_for_function(SETTLED, arg=AFTER_A_RUN, polling=LOOK_EVERY)
    page.evaluate(axe)
    page.evaluate(AS_AXE_READS)
    assert faults(page) == {}
    page.emulate_media(color_scheme="dark")
    page.wait_for_function(GROUND, arg=rgb(SURFACES["dark"].background))
    page.evaluate("window.dpStill = 0")
    page.wait_for_function(SETTLED, arg=AFTER_A_MODE, polling=LOOK_EVERY)
    assert faults(page) == {}
    assert errors == []


@pytest.mark.parametrize(
    ("name", "width", "more"),
    [
        ("convergence", 1440, ""),  # knobs beside the page's right edge
        ("strategies", 1024, "&show=weight+paths"),  # three charts in a row
    ],
)
def test_views_with_little_room_are_not_cut_off(look, name, width, more):
    page, errors = look(name, width=width, more=more)
    page.wait_for_selector("h2.dp-chart, .js-plotly-plot")
    checks = {"beyond": BEYOND, "cut": CUT, "cut in charts": CUT_IN_CHARTS}
    found = {kind: page.evaluate(check) for kind, check in checks.items()}
    assert {kind: what for kind, what in found.items() if what} == {}
    assert errors == []


def test_as_many_choices_as_a_list_takes_wrap_on_a_phone(look):
    page, _ = look("algorithms", width=390, more="&algorithms=ring,tree,butterfly,halving-doubling")
    tags, clear = page.locator("main [data-tag]"), page.get_by_role("button", name="Clear all")
    right = "(all) => all.map((each) => each.getBoundingClientRect().right)"
    assert tags.count() == 4
    assert max(tags.evaluate_all(right)) < clear.bounding_box()["x"]


@pytest.mark.parametrize(
    ("name", "entry"), [("topology", "Predict"), ("strategies", "Synchronise")]
)
def test_the_top_row_marks_the_entry_of_every_part(look, name, entry):
    page, _ = look(name)
    marked = """() => [...document.querySelectorAll("header a")]
      .filter((each) => getComputedStyle(each).fontWeight === "600")
      .map((each) => each.innerText)"""
    assert page.evaluate(marked) == [entry]


def test_labels_of_switches_wrap_and_their_buttons_line_up_with_others(look):
    page, _ = look("own_files")
    page.get_by_text("all knobs").click()
    page.get_by_text("in-network reduction", exact=True).wait_for()
    page.evaluate("window.dpStill = 0")
    page.wait_for_function(SETTLED, arg=AFTER_A_RUN, polling=LOOK_EVERY)
    switch = page.locator("label", has_text="in-network reduction")
    cut = "(all) => all.map((each) => each.scrollWidth - each.clientWidth)"
    assert max(switch.locator("div").evaluate_all(cut)) <= 0
    edges = {
        page.get_by_role("button", name=f"compare values of {knob}").bounding_box()["x"]
        for knob in ("in-network reduction", "fabric", "full-duplex efficiency")
    }
    assert len(edges) == 1


def faults(page):
    """What is wrong with a page as it is shown: by the kind of fault what has it."""
    axe = page.evaluate(AXE)
    found = {
        "beyond": page.evaluate(BEYOND),
        "cut": page.evaluate(CUT),
        "cut in charts": page.evaluate(CUT_IN_CHARTS),
        "empty charts": page.evaluate(EMPTY),
        "tags": page.evaluate(TAGS),
        "axe": [
            (each["id"], [node["target"] for node in each["nodes"]][:5])
            for each in axe["violations"]
        ],
        "axe gave up": [each["message"] for each in axe["incomplete"] if "error" in each],
    }
    return {kind: what for kind, what in found.items() if what}


def colours(page):
    """Of the page's ground, the words of its charts and the notes below its numbers."""
    return page.evaluate(
        """() => [
          getComputedStyle(document.querySelector(".stApp")).backgroundColor,
          getComputedStyle(document.querySelector(".js-plotly-plot .xtitle")).fill,
          getComputedStyle(document.querySelector(".js-plotly-plot .main-svg")).backgroundColor,
        ]"""
    )


def as_hex(reported):
    return "#" + "".join(f"{int(part):02x}" for part in re.findall(r"\d+", reported)[:3])


def rgb(colour):
    red, green, blue = (int(colour[at : at + 2], 16) for at in (1, 3, 5))
    return f"rgb({red}, {green}, {blue})"


def test_the_mode_is_the_systems_and_charts_follow_it_at_once(look):
    page, _ = look(*NARROW)
    page.wait_for_selector(".js-plotly-plot .xtitle")
    for mode in ("dark", "light"):
        page.emulate_media(color_scheme=mode)
        surface = SURFACES[mode]
        page.wait_for_function(GROUND, arg=rgb(surface.background))
        found = [rgb(surface.background), rgb(surface.text), "rgba(0, 0, 0, 0)"]
        assert colours(page) == found


def test_every_axis_of_several_plots_in_one_follows_the_mode(look):
    page, _ = look("strategies")
    page.wait_for_selector(".js-plotly-plot .y2tick text")
    page.emulate_media(color_scheme="dark")
    page.wait_for_function(GROUND, arg=rgb(SURFACES["dark"].background))
    inks = page.evaluate(
        """() => [...document.querySelectorAll(".js-plotly-plot g:is(.ytick, .y2tick) text")]
        .map((each) => getComputedStyle(each).fill)"""
    )
    assert {*inks} == {rgb(SURFACES["dark"].text)}


def test_reduced_motion_stops_animations(look):
    page, _ = look(*NARROW)
    page.emulate_media(reduced_motion="reduce")
    lasting = page.evaluate(
        """() => [...document.querySelectorAll(".stApp *")]
        .map((each) => parseFloat(getComputedStyle(each).transitionDuration))
        .filter((seconds) => seconds > 0.001).length"""
    )
    assert lasting == 0


def test_knobs_are_reached_and_changed_by_keyboard(look):
    page, _ = look("own_files")
    for _ in range(60):
        page.keyboard.press("Tab")
        focus = page.evaluate("document.activeElement.getAttribute('aria-label')")
        if focus == "nodes":
            break
    assert focus == "nodes"
    page.keyboard.press("ArrowRight")
    page.wait_for_url("**cluster.nodes**")


def test_all_columns_of_sixteen_ranks_fit(look):
    page, errors = look("algorithms", more="&ranks=16")
    page.wait_for_selector("text=ring all-reduce of 16 ranks")
    beyond = page.locator(".dpsim-steps .scroll").evaluate_all(
        "(all) => all.map((each) => each.scrollWidth - each.clientWidth)"
    )
    assert len(beyond) == 6  # a grid and a circle of each algorithm
    assert max(beyond) <= 1
    page.emulate_media(color_scheme="dark")
    page.wait_for_function(GROUND, arg=rgb(SURFACES["dark"].background))
    ink, ground = page.locator(".dpsim-steps h3").first.evaluate(
        "(head) => [head, document.querySelector('.stApp')].map((each, at) => "
        "getComputedStyle(each)[['color', 'backgroundColor'][at]])"
    )
    assert contrast(*map(as_hex, (ink, ground))) > 4.5
    # The first round is drawn, not what was there before it.
    assert page.locator(".dpsim-steps input").get_attribute("aria-valuetext").startswith("1 of ")
    page.get_by_role("button", name="next round").click()
    assert page.locator(".dpsim-steps text", has_text="ab").count() > 0
    assert errors == []
