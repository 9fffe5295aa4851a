"""The documentation as a site: ``python -m tools.site`` builds it into ``docs/site`` (make docs).

MkDocs builds it from the Markdown in the repository. The pages keep their layout, so that all links
between them work, and two are generated: the scenarios with a figure each, and the reference of the
Python API. A broken link is an error.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import dpsim
from dpsim.base.errors import DpsimError
from dpsim.commands.scenarios import about
from dpsim.report.pages.document import figure_html
from dpsim.scenario import shipped

ROOT = Path(__file__).parents[1]
LAID_OUT = ROOT / "build" / "site"
SITE = ROOT / "docs" / "site"
PLOTLY = ROOT / "dpsim" / "report" / "pages" / "plotly-basic.min.js"
# The targets of the pages' links, from the root of the repository.
PARTS = (
    "README.md",
    "DESIGN.md",
    "CONTRIBUTING.md",
    "CHANGELOG.md",
    "LICENSE",
    "docs",
    "scenarios",
)
Draw = Callable[[Path], str]
# The gallery is one folder below the site's root, where this file is.
_LOAD_PLOTLY = '<script src="../plotly-basic.min.js"></script>'
_STEPS = ("run.steps=4", "run.warmup=1")


def lay_out(folder: Path, draw: Draw) -> None:
    """Put all pages, and the files that they link to, into ``folder``.

    ``draw`` draws a scenario's step as HTML, empty if there is nothing to draw.
    """
    shutil.rmtree(folder, ignore_errors=True)
    pages = folder / "pages"
    for part in PARTS:
        source, target = ROOT / part, pages / part
        if source.is_dir():
            # docs may contain an earlier site.
            shutil.copytree(source, target, ignore=shutil.ignore_patterns("site"))
        elif source.is_file():
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(source, target)
    shutil.copy(PLOTLY, pages / PLOTLY.name)
    (pages / "scenarios" / "gallery.md").write_text("\n".join(gallery(draw)), encoding="utf-8")
    (pages / "docs" / "api.md").write_text("\n".join(api()), encoding="utf-8")
    shutil.copy(ROOT / "tools" / "mkdocs.yml", folder / "mkdocs.yml")


def gallery(draw: Draw) -> Iterator[str]:
    """Yield a page of all shipped scenarios: a description, a figure of the step, and the file."""
    yield "# Scenarios"
    yield ""
    yield "Every file that comes with dpsim; the [tour](tour.md) explains them one after the other."
    yield ""
    yield _LOAD_PLOTLY
    files = shipped()
    # Draw in parallel, since each scenario takes a simulation of its own.
    with ProcessPoolExecutor() as pool:
        figures = pool.map(draw, files.values())
        for (name, path), figure in zip(files.items(), figures, strict=True):
            yield ""
            yield f"## {name}"
            yield ""
            yield about(path.read_text(encoding="utf-8"))
            yield ""
            yield figure
            yield ""
            yield f"[{name}.yaml]({name}.yaml)"


def draw_step(scenario: Path) -> str:
    """Draw the mean of a few steps of a scenario; return nothing if it cannot be simulated."""
    try:
        result = dpsim.simulate(dpsim.load_scenario(scenario, list(_STEPS)))
    except DpsimError:
        return ""
    return figure_html(result.plot())


def api() -> Iterator[str]:
    """Yield the page of the names in ``dpsim.__all__``, from their docstrings."""
    yield "# Python reference"
    yield ""
    yield "What `from dpsim import ...` gives; [Python](python.md) shows how it is used."
    for name in dpsim.__all__:
        if not name.startswith("_"):
            found = getattr(dpsim, name)
            yield ""
            yield f"::: {found.__module__}.{found.__qualname__}"


def main() -> None:
    """Build the site. Exits with MkDocs' code where a link or a page is invalid."""
    lay_out(LAID_OUT, draw_step)
    sys.exit(build(LAID_OUT, SITE))


def build(laid_out: Path, site: Path) -> int:
    """Build the laid-out site, and return MkDocs' exit code, not 0 after any warning."""
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet"]
    places = ["--config-file", str(laid_out / "mkdocs.yml"), "--site-dir", str(site)]
    # Suppress the theme's announcement of its successor, which is no warning about these pages.
    environment = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    return subprocess.run([*command, *places], check=False, env=environment).returncode


if __name__ == "__main__":
    main()
