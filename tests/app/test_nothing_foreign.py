"""What files and addresses say is shown as text: a catcher on loopback hears of nothing.

Escaping and the page's policy are each tested without the other: the browser ignores the
policy where text is tried, and where the policy is tried an image is put into the page itself.
"""

import base64
import json
import os
import re
import time
import zlib
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from urllib.parse import urlencode

import pytest
import yaml
from gone import soon
from typer.testing import CliRunner

from app.plain import plain
from app.uploads import KINDS
from dpsim import cli

pytestmark = pytest.mark.browser

MAIN = "main"
DRAWN = "[data-test-script-state=notRunning] main [data-testid=stElementContainer]"
VERDICTS = "main :is([data-testid=stAlertContentError], .dp-verdict)"
# As the browser's Back does: the page that is there shows what its address now says.
GO = """address => {
  history.pushState({}, "", address);
  dispatchEvent(new PopStateEvent("popstate"));
}
"""
# Puts an image into the page itself, and waits until it is there or is refused.
IMAGE = """url => new Promise((ended) => {
  const image = new Image();
  image.onload = image.onerror = ended;
  document.body.appendChild(image).src = url;
}).then(() => {})
"""
REFUSED = "chrome-error://chromewebdata/"  # what stands in a frame that may not show its page
QUICK = ["run.steps=2", "run.warmup=0"]


@pytest.fixture
def catcher():
    """A server that records its requests: its address, and their list."""
    requested = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            requested.append(self.path)
            self.send_response(204)
            self.end_headers()

        def log_message(self, *_):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}", requested
    server.shutdown()
    server.server_close()


def packed(text):
    return base64.urlsafe_b64encode(zlib.compress(text.encode(), 9)).decode().rstrip("=")


def scenario(name, **more):
    """A scenario of that name, as its text."""
    cluster = {"nodes": 2, "node": "dgx1-v100", "network": {"fabric": "single-switch"}}
    given = {
        "name": name,
        "cluster": cluster,
        "workload": {"model": "resnet18", "batch_per_gpu": 4},
        "run": {"steps": 2, "warmup": 0},
    }
    return yaml.safe_dump({**given, **more})


def ways_in(image):
    """By name: the page, the query that carries ``image``, a line of Markdown, and a text shown.

    That is ``image`` itself, where the page says it as it is.
    """
    named = {"yaml": packed(scenario(image)), "file": "a.yaml"}
    compared = {"1-yaml": named["yaml"], "1-file": image}
    choices = {"algorithms": image, "operation": image, "where": image}
    return {
        "a preset's name": ("", {"preset": image}, image),
        "a changed path": ("", {"preset": "resnet50-32-v100-25gbe", "set": image}, image),
        "a changed value": ("", {"set": [*QUICK, f"strategy.sync.kind={image}"]}, image),
        "a file's name": ("", {"yaml": packed("name: [broken"), "file": image}, image),
        "a name on the page of trust": ("trust", named, "Predictions beside measurements"),
        "a name on the page of topology": ("topology", named, "Load of the links"),
        "a name on the page of stragglers": (
            "stragglers",
            {**named, "sync": "bsp"},
            "With slow workers BSP keeps",
        ),
        "a folder of batches": (
            "compare",
            {"compare": "a sweep", "folder": image},
            "must be the folder of a sweep",
        ),
        "a page's choice": (
            "compare",
            {**named, "compare": image, "vary": image},
            "tree is the fastest",
        ),
        "an algorithm": ("algorithms", choices, "Each row is a rank"),
        "names of a scenario, its file, and a compared one's": (
            "",
            {**named, "file": image, **compared},
            image,
        ),
    }


# The same names and changes as another way's, on another page or in another place.
ALIKE = ("a changed path", "a name on the page of topology", "a name on the page of stragglers")
WAYS = [pytest.param(way, marks=pytest.mark.wide if way in ALIKE else ()) for way in ways_in("")]


def fetched(page, catcher):
    """Return what a drawn page has fetched so far.

    An image is fetched as soon as it is in the page, so all that were there before have been
    when the catcher has received one that is added here, which is left out.
    """
    url, requested = catcher
    page.evaluate(IMAGE, f"{url}/last.png")
    assert requested[-1:] == ["/last.png"]
    return requested[:-1]


@pytest.fixture(scope="module")
def go(lax, address):
    """Opens a page of the dashboard at an address: loads it, or goes there from another of them."""
    lax.goto("about:blank")  # what is there was loaded with its policy

    def opened(path, query):
        url = f"{address}/{path}?{urlencode(query, doseq=True)}"
        if lax.url.startswith(address):
            lax.evaluate(GO, url)
        else:
            lax.goto(url)

    return opened


@pytest.mark.parametrize("way", WAYS)
def test_no_other_server_is_contacted_without_the_policy(lax, go, catcher, way):
    url, _ = catcher
    image = f"![x]({url}/{way.replace(' ', '-').replace(chr(39), '')}.png)"
    path, query, message = ways_in(image)[way]
    requests = []
    with listening(lax, requests):
        go(path, query)
        lax.locator(MAIN).get_by_text(message).first.wait_for()
        lax.wait_for_selector(DRAWN)
        assert fetched(lax, catcher) == []
    assert [each for each in requests if each.startswith(url)] == [f"{url}/last.png"]


@contextmanager
def listening(page, requests):
    """Adds what a page asks for to ``requests``."""

    def received(request):
        requests.append(request.url)

    page.on("request", received)
    yield
    page.remove_listener("request", received)


@pytest.fixture
def bare(tab, address):
    """The page as the server gives it, with its policy, and nothing drawn: another tab of it."""
    page = tab.context.new_page()
    page.route(f"{address}/static/**", lambda route: route.abort())
    yield page
    page.close()


@pytest.mark.parametrize("ignored", [False, True])
def test_the_policy_keeps_the_browser_from_other_servers(bare, address, catcher, ignored):
    url, requested = catcher
    bare.context.new_cdp_session(bare).send("Page.setBypassCSP", {"enabled": ignored})
    bare.goto(address)
    bare.evaluate(IMAGE, f"{url}/seen.png")
    assert requested == (["/seen.png"] if ignored else [])


def test_the_policy_is_stated_and_no_frame_shows_a_page(bare, address):
    answer = bare.goto(address)
    policy = answer.headers["content-security-policy"]
    assert "default-src 'self'" in policy
    assert "frame-ancestors 'none'" in policy
    assert answer.headers["x-frame-options"] == "DENY"
    bare.unroute_all()
    bare.set_content(f"<iframe src='{address}'></iframe>")
    bare.frames[1].wait_for_url(REFUSED, wait_until="commit")
    assert bare.frames[1].locator("[data-testid=stApp]").count() == 0


LINK = '<a href="http://a.org/">name</a> <img src=x> <span style="color: red">s</span>'


def test_names_in_figures_of_a_saved_page_are_no_links(browser, tmp_path):
    """A scenario's name is that of a bar, and a sweep's that of a point."""
    given, page_file = tmp_path / "it.yaml", tmp_path / "it.html"
    given.write_text(scenario(LINK), encoding="utf-8")
    ran = CliRunner().invoke(cli.app, ["run", str(given), "--html", str(page_file)])
    assert ran.exit_code == 0
    page = browser.new_page()
    page.goto(page_file.as_uri())
    page.wait_for_selector(".js-plotly-plot .ytick")
    # Plotly may measure with an image for a moment while it draws.
    assert soon(lambda: page.locator("[href*='a.org'], img").count() == 0, 5)
    shown = page.locator(".js-plotly-plot .ytick text").all_text_contents()
    assert LINK in shown
    page.close()


def test_names_in_figures_of_the_dashboard_are_no_links(lax, go, tmp_path):
    given, folder = tmp_path / "it.yaml", tmp_path / "results"
    over = {"method": "grid", "parameters": {"cluster.nodes": {"values": [1, 2]}}}
    given.write_text(scenario(LINK, sweep=over), encoding="utf-8")
    ran = CliRunner().invoke(cli.app, ["sweep", str(given), "-o", str(folder), "--workers", "1"])
    assert ran.exit_code == 0
    lax.goto("about:blank")  # no point of another page's figure is there
    go("compare", {"compare": "a sweep", "folder": str(folder)})
    lax.locator(".js-plotly-plot .point").first.hover(force=True)
    lax.wait_for_selector(".js-plotly-plot .hovertext")
    assert LINK in lax.locator(".js-plotly-plot .hovertext").first.text_content()
    assert lax.locator("[href*='a.org']").count() == 0


def hostile(image):
    """By kind of file: one that says ``image`` wherever a name may stand, read or refused."""
    config = {
        "model_type": image,
        "architectures": [image],
        "_name_or_path": image,
        "hidden_size": image,
    }
    events = [{"ph": "X", "cat": "cpu_op", "name": image, "ts": 0, "dur": 1, "pid": image}]
    whole = {"schema_version": 1, "name": image, "kind": image, "formula": image, "layers": [image]}
    contents = {
        "a Hugging Face config.json": json.dumps(config),
        "a trace of PyTorch's profiler (Kineto)": json.dumps({"traceEvents": events}),
        "a model profile (dpsim import)": json.dumps(whole),
        "a calibration profile (dpsim validate calibrate)": json.dumps(whole),
        "a log of nccl-tests": f"# nThread 1 {image}\n 1024 256 float {image} -1 {image}\n",
        "the text of nvidia-smi topo -m": f"\tGPU0\t{image}\nGPU0\t X \t{image}\n",
    }
    assert set(contents) == set(KINDS)
    return contents


@pytest.fixture(scope="module")
def own_files(lax, go):
    """The page on which files are uploaded."""
    go("own_files", {})
    return lax


# JSON, and text in lines of its own; what the other kinds say is shown in the same places.
OF_EACH_FORM = ("a Hugging Face config.json", "a log of nccl-tests")
UPLOADS = [
    pytest.param(kind, marks=() if kind in OF_EACH_FORM else pytest.mark.wide) for kind in KINDS
]


@pytest.mark.parametrize("kind", UPLOADS)
def test_contents_and_name_of_an_upload_fetch_nothing(own_files, catcher, kind):
    url, _ = catcher
    image = f"![x]({url}/seen.png)<img src={url}/seen.png>"
    content = hostile(image)[kind].encode()
    choose_kind(own_files, kind)
    # The page's line about a kind comes before its own place for a file: another kind's may be left.
    place = re.sub(r"[^\w-]", "-", f"own file {kind}")
    own_files.locator(f".st-key-{place} input[type=file]").set_input_files(
        {"name": f"{image}.json", "mimeType": "text/plain", "buffer": content}
    )
    own_files.locator(VERDICTS).first.wait_for()
    assert own_files.locator("main img").count() == 0
    assert fetched(own_files, catcher) == []


def choose_kind(page, kind):
    """Another kind than before has no file yet, and no error about one."""
    page.get_by_role("combobox", name="kind of file").click()
    page.get_by_role("option", name=kind, exact=True).click()
    page.locator(f"text={KINDS[kind].gain}").wait_for()
    page.locator(VERDICTS).wait_for(state="detached")


MARKED = """![i](http://a.org/i.png) [l](http://a.org) <img src=x> **b** _c_ `d` $e$ ~~f~~
https://a.org www.a.org &lt; \\
- list
1. list
# heading"""


def test_markdown_in_names_is_shown_as_text(lax, go):
    """What is shown are the very letters, without an element in them but visible addresses."""
    go("", {"yaml": packed("name: [broken"), "file": MARKED.replace("\n", " ")})
    shown = lax.locator("[data-testid=stAlertContentError]").first
    lax.get_by_text("must be YAML").first.wait_for()
    assert MARKED.replace("\n", " ") in shown.inner_text()
    # An address in plain sight stays one that can be followed.
    assert shown.locator("p :not(a)").count() == 0
    links = shown.locator("p a").evaluate_all("links => links.map(a => [a.innerText, a.href])")
    assert all(href.rstrip("/").endswith(text) for text, href in links)


def test_error_messages_are_unchanged():
    message = "mine.yaml:3:44: workload.batch_per_gpu: must be at least 1, but got -8"
    assert plain(message) == message
    assert plain("- a\n1. b") == "\\- a\n\n1\\. b"


def test_work_of_a_closed_tab_stops_within_2_s(lax, go, address):
    """Progress is measured by the processor time of the server's process.

    The seconds are the processor's, which a busy machine does not make more.
    """

    def cpu_seconds():
        ticks = 0
        for pid in servers:
            fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
            ticks += int(fields[11]) + int(fields[12])
        return ticks / os.sysconf("SC_CLK_TCK")

    servers = listening_at(int(address.rpartition(":")[2]))
    long = [
        "run.steps=5500",
        "strategy.aggregation.kind=parameter-server",
        "strategy.sync.kind=asp",
    ]
    go("", {"set": [*long, "cluster.nodes=1"]})
    lax.get_by_role("button", name="cancel").wait_for()
    before = cpu_seconds()
    assert soon(lambda: cpu_seconds() - before > 0.2, 30), "it is at work"
    lax.goto("about:blank")
    gone = cpu_seconds()

    def rests():
        before = cpu_seconds()
        time.sleep(0.25)
        return cpu_seconds() - before < 0.05

    assert soon(lambda: rests() or cpu_seconds() - gone > 2, 60)
    assert cpu_seconds() - gone < 2, "it is still at work"


def listening_at(port):
    """The processes that listen at ``port``."""
    inodes = set()
    for line in Path("/proc/net/tcp").read_text().splitlines()[1:]:
        fields = line.split()
        if fields[3] == "0A" and int(fields[1].rpartition(":")[2], 16) == port:
            inodes.add(f"socket:[{fields[9]}]")
    found = []
    for process in Path("/proc").iterdir():
        if not process.name.isdigit():
            continue
        try:
            links = {str(each.readlink()) for each in (process / "fd").iterdir()}
        except OSError:
            continue
        if links & inodes:
            found.append(int(process.name))
    return found
