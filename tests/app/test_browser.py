"""The dashboard as people meet it.

The command, a real browser, a knob, and the address that reproduces the page.
"""

import re
import socket

import pytest
from PIL import Image
from streamlit.proto.BackMsg_pb2 import BackMsg

from dpsim.report.figures.style import PART_COLOURS
from dpsim.report.theme import COLOUR, SURFACES

pytestmark = pytest.mark.browser

CSS = ".dp-value"  # the first of these is the step time
CHANGED = "([css, before]) => { const now = document.querySelector(css); return now !== null && now.innerText !== before }"
NODES = "input[type=range][aria-label=nodes]"
# Every knob is turned in a moment, which takes no time from what is looked at.
QUICK = "set=run.steps=2&set=run.warmup=0"
LLAMA = "llama3-8b-8-h100-fsdp"
STEP_TIME = ".dp-number:has-text('step time') .dp-value"


@pytest.fixture(scope="module")
def page(tab, address):
    """The tab with the first page, for which and after which nothing may be fetched from elsewhere.

    It stays as one test leaves it to the next.
    """
    requested = []

    def noted(request):
        requested.append(request.url)

    tab.emulate_media(color_scheme="light")
    tab.set_viewport_size({"width": 1400, "height": 900})
    tab.on("request", noted)
    tab.goto(f"{address}/?{QUICK}")
    yield tab
    tab.remove_listener("request", noted)
    port = address.rpartition(":")[2]
    own = rf"(data:|blob:|(http|ws)://(localhost|127\.0\.0\.1):{port}/)"
    assert requested != []
    assert [url for url in requested if not re.match(own, url)] == []


def step_time(page):
    return page.locator(STEP_TIME).inner_text()


def turn_nodes(page, number):
    """By the keyboard, along the scale of powers of two."""
    nodes = page.locator(NODES)
    turns = (number // int(nodes.get_attribute("aria-valuetext"))).bit_length() - 1
    for _ in range(abs(turns)):
        nodes.press("ArrowRight" if turns > 0 else "ArrowLeft")


def test_a_knob_changes_the_number_and_its_address_shows_the_same_page(page):
    page.wait_for_selector(STEP_TIME)
    before = step_time(page)
    turn_nodes(page, 8)
    page.wait_for_url(re.compile(r"cluster\.nodes(%3D|=)8"))
    page.wait_for_function(CHANGED, arg=[CSS, before])
    after = step_time(page)
    url = page.url
    page.goto("about:blank")
    page.goto(url)
    page.wait_for_selector(STEP_TIME)
    assert step_time(page) == after != before
    assert page.locator(NODES).get_attribute("aria-valuetext") == "8"
    assert page.url == url


def test_another_page_keeps_the_scenario_and_draws_its_chart(page):
    page.wait_for_selector(STEP_TIME)
    turn_nodes(page, 8)  # as they are after the test above
    page.wait_for_url(re.compile(r"cluster\.nodes(%3D|=)8"))
    page.get_by_role("link", name="Topology").first.click()
    drawn = ".st-key-topology .js-plotly-plot"
    page.wait_for_selector(drawn, state="attached")
    page.wait_for_url(re.compile(r"/topology\?.*cluster"))
    # Once the chart stayed of no size after this change of page, why is not known: a new width lays
    # it out again.
    page.set_viewport_size({"width": 1200, "height": 900})
    page.wait_for_selector(drawn)
    assert page.locator("[data-testid=stException]").count() == 0
    page.get_by_text("8 nodes, 64 GPUs").wait_for()


def test_a_link_reproduces_the_comparison_and_the_scenario_is_saved_as_a_picture(page, address):
    columns = "".join(
        f"&{place}-preset={LLAMA}&{place}-set=cluster.nodes={nodes}"
        for place, nodes in enumerate((1, 2, 8), 1)
    )
    page.goto(f"{address}/?preset={LLAMA}&{QUICK}{columns}")
    shown = page.locator(".dp-compared").inner_text()
    assert len(shown.splitlines()) > 8
    page.wait_for_selector(STEP_TIME)
    page.get_by_role("button", name="Share").click()
    link = page.locator(".st-key-link code").inner_text()
    with page.expect_download() as download:
        page.get_by_text("download the picture").click()
    assert download.value.suggested_filename == "llama-3-8b-8-x-h100-one-node.png"
    picture = Image.open(download.value.path()).convert("RGB")
    assert picture.size == (1200, 630)
    colours = {"#{:02x}{:02x}{:02x}".format(*colour) for _, colour in picture.getcolors(2**20)}
    assert {PART_COLOURS["compute"], COLOUR["blue"], SURFACES["light"].text} <= colours
    page.goto("about:blank")
    page.goto(link.strip())
    assert page.locator(".dp-compared").inner_text() == shown


@pytest.fixture
def reruns(page):
    """The reruns that the page requests: the identifier of a fragment, "" for the whole page."""
    requested = []

    def noted(data):
        sent = BackMsg.FromString(data)
        if sent.WhichOneof("type") == "rerun_script":
            requested.append(sent.rerun_script.fragment_id)

    page.on("websocket", lambda socket: socket.on("framesent", noted))
    return requested


def test_limits_arrive_and_fragments_rerun_without_the_page(page, address, reruns):
    page.goto("about:blank")
    page.goto(f"{address}/?preset=llama2-70b-128-a100-hybrid&set=run.steps=4")
    limits = page.locator(".st-key-limits")
    best = limits.get_by_role("button", name="time per sample")
    best.first.wait_for()
    limits.get_by_text("every knob", exact=True).wait_for()
    # All of the page at its start, for its charts, and on a busy machine when a step that took more
    # than a second is known; then only fragments.
    assert reruns.count("") <= 3
    parts = len(reruns)
    page.get_by_text("slowest and fastest").click()
    page.wait_for_url(re.compile("timeline=slowest"))
    assert "" not in reruns[parts:]
    best.first.click()
    page.wait_for_url(re.compile(r"set=cluster\.gpu"))
    assert "timeline=slowest" in page.url


def test_a_click_on_the_efficiency_chart_sets_the_count(page, address):
    page.goto("about:blank")
    page.goto(f"{address}/?preset={LLAMA}&{QUICK}")
    page.wait_for_selector("text=8 x H100")
    points = page.locator("[class*=st-key-scaling] .scatterlayer .points path")
    points.last.wait_for()
    points.last.scroll_into_view_if_needed()
    box = points.last.bounding_box()
    page.mouse.click(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    page.wait_for_url(re.compile(r"set=cluster\.nodes(%3D|=)4(&|$)"))
    page.wait_for_selector("text=32 x H100")


def test_only_this_machine_is_served(address):
    port = int(address.rpartition(":")[2])
    own = [info[4][0] for info in socket.getaddrinfo(socket.gethostname(), port, socket.AF_INET)]
    for other in {each for each in own if not each.startswith("127.")}:
        with pytest.raises(OSError, match=r"refused|timed out"):
            socket.create_connection((other, port), timeout=2).close()
    socket.create_connection(("127.0.0.1", port), timeout=2).close()


def test_an_opened_expander_stays_open(page, address):
    page.goto("about:blank")
    page.goto(f"{address}/?{QUICK}")
    page.get_by_text("every knob").wait_for()  # after all else
    page.get_by_text("Your measured steps").click()
    page.locator(".st-key-measured-steps input[type=file]").wait_for(state="attached")
