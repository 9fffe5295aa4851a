"""Take the documentation's screenshots of the dashboard, in chromium.

python -m tools.dashboard_screens              # all of them
python -m tools.dashboard_screens trust phone  # these
"""

from __future__ import annotations

import io
import sys
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import urlencode

from app.spec import Spec
from tools.dashboard_speed import dashboard

if TYPE_CHECKING:
    from playwright.sync_api import FilePayload, Page

FOLDER = Path(__file__).parents[1] / "docs" / "images"
_WIDTH = 1000  # maximum width of a picture, in pixels
_TIMEOUT_MS = 120_000.0  # ms
# Idle for four seconds, with nothing left to load or to draw.
_SETTLED = """() => {
  const still = document.querySelector("[data-test-script-state=notRunning]") !== null
    && document.querySelector("[role=progressbar], [data-testid=stSkeleton]") === null
    && [...document.querySelectorAll("[data-testid=stPlotlyChart]")]
      .every((each) => each.querySelector(".main-svg") !== null);
  if (!still) window.dpStill = undefined;
  else window.dpStill ??= performance.now();
  return still && performance.now() - window.dpStill > 4000;
}
"""


class Screen(NamedTuple):
    """A page, its address query, the window's size, and the part to show.

    ``at``: a CSS selector to scroll to; ``presses`` of the button for the next round; ``steps``: a
    table of measured steps to upload.
    """

    page: str
    query: dict[str, str]
    width: int = 1440
    height: int = 1000
    dark: bool = False
    at: str = ""
    presses: int = 0
    steps: str = ""


def _block(page: str, name: str) -> str:
    """Return the file ``name`` in a page of the documentation."""
    text = (FOLDER.parent / page).read_text(encoding="utf-8")
    return text.partition(f"<!-- file: {name} -->\n```")[2].partition("\n")[2].partition("```")[0]


_FOUR = "tutorials/four-measured-steps.md"
SCREENS = {
    "first-page": Screen(
        "", {"preset": "bert-large-64-a100-nccl", "set": "cluster.nodes=16", "was": ""}
    ),
    "first-page-dark": Screen("", {"preset": "vgg16-16-v100-parameter-server"}, dark=True),
    "comparison": Screen(
        "",
        {
            "preset": "llama3-8b-8-h100-fsdp",
            "set": "cluster.nodes=8",
            "1-preset": "llama3-8b-8-h100-fsdp",
            "2-preset": "llama3-8b-8-h100-fsdp",
            "2-set": "cluster.nodes=2",
            "3-preset": "llama3-8b-8-h100-fsdp",
            "3-set": "cluster.nodes=8",
        },
        height=860,
    ),
    "does-not-fit": Screen("", {"set": "workload.batch_per_gpu=512"}, height=880),
    "timeline": Screen(
        "",
        {
            "preset": "gpt3-1.3b-16-a100-fsdp",
            "set": "workload.gradient_accumulation=2",
            "timeline": "slowest and fastest, too",
        },
        at=".st-key-limits",
    ),
    "topology": Screen("topology", {"preset": "llama2-70b-128-a100-hybrid"}, height=1100),
    "stragglers": Screen("stragglers", {}, height=870, dark=True),
    "trust": Screen("trust", {"table": "llm"}, height=2010),
    "phone": Screen("", {}, width=390, height=844),
    "questions": Screen("questions", {}, height=1200),
    "algorithm": Screen(
        "algorithms", {"algorithms": "ring,halving-doubling"}, height=860, presses=2
    ),
    "strategies": Screen("strategies", {}, height=1520),
    "measured-steps": Screen(
        "",
        {key: one for key, (one,) in Spec(text=_block(_FOUR, "t4.yaml")).to_query().items() if one},
        height=1040,
        at=".st-key-measured-steps",
        steps=_block(_FOUR, "steps.csv"),
    ),
}


def main(names: list[str]) -> None:
    """Take the pictures of ``names``, all if empty."""
    with dashboard() as (address, _, browser):
        for name in names or SCREENS:
            screen = SCREENS[name]
            page = browser.new_page(
                viewport={"width": screen.width, "height": screen.height},
                color_scheme="dark" if screen.dark else "light",
                # The page's policy forbids `wait_for_function`, which evaluates text.
                bypass_csp=True,
            )
            page.set_default_timeout(_TIMEOUT_MS)
            page.goto(f"{address}/{screen.page}?{urlencode(screen.query)}")
            _save(_picture(page, screen), FOLDER / f"{name}.webp")
            page.close()
            print(name)


def _picture(page: Page, screen: Screen) -> bytes:
    page.wait_for_function(_SETTLED)
    for _ in range(screen.presses):
        page.get_by_role("button", name="next round").click()
    if screen.steps:
        page.get_by_text("Your measured steps").click()
        page.wait_for_function(_SETTLED)
        table: FilePayload = {
            "name": "steps.csv",
            "mimeType": "text/csv",
            "buffer": screen.steps.encode(),
        }
        page.locator("input[type=file]").last.set_input_files(table)
        page.wait_for_timeout(1000)
        page.wait_for_function(_SETTLED)
    if screen.at:
        page.locator(screen.at).evaluate("each => each.scrollIntoView()")
    page.wait_for_timeout(1000)  # until animations have finished
    return page.screenshot()


def _save(png: bytes, file: Path) -> None:
    from PIL import Image

    picture = Image.open(io.BytesIO(png)).convert("RGB")
    if picture.width > _WIDTH:
        height = round(picture.height * _WIDTH / picture.width)
        picture = picture.resize((_WIDTH, height), Image.Resampling.LANCZOS)
    picture.save(file, quality=82, method=6)


if __name__ == "__main__":
    main(sys.argv[1:])
