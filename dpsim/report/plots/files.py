"""A figure as a file: a page, or a picture by plotly's own exporter, kaleido, and a browser."""

from __future__ import annotations

import re
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from dpsim.base.errors import DpsimError, FailedError, how_to_install
from dpsim.base.terminal import write_whole
from dpsim.report.figures.names import as_text
from dpsim.report.pages.document import figures_page

if TYPE_CHECKING:
    import plotly.graph_objects as go

PICTURES = (".png", ".svg")
ENDINGS = (".html", *PICTURES)
_WIDTH = 900  # of a picture, in units of the figure's own size
_SCALE = 2  # pixels of such a unit


def check_ending(path: Path) -> None:
    """Raise DpsimError for a file name without a known ending, before anything is computed.

    Raises FailedError for a picture if kaleido or a browser is missing.
    """
    ending = path.suffix.lower()
    if ending not in ENDINGS:
        raise DpsimError(f"{path}: must end in {', '.join(ENDINGS)}, but got {path.suffix!r}")
    if ending in PICTURES:
        missing = _missing()
        if missing:
            raise FailedError(f"{path}: {missing}; .html needs neither")


def write_figure(figure: go.Figure, path: Path) -> None:
    """Write ``figure`` to ``path`` in the format of its ending.

    Raises DpsimError for other endings, FailedError for a picture if kaleido or a browser is
    missing.
    """
    check_ending(path)
    ending = path.suffix.lower()
    if ending in PICTURES:
        import kaleido

        look = {"format": ending.removeprefix("."), "width": _WIDTH, "scale": _SCALE}
        # Called here since `figure.to_image` would let it load MathJax from a server.
        drawn: bytes = kaleido.calc_fig_sync(as_text(figure), opts=look, kopts={"mathjax": False})
        write_whole(path, drawn)
        return
    title = re.sub(r"</?su[bp]>", "", str(figure.layout.title.text or "")).replace("<br>", " ")
    write_whole(path, figures_page(title or path.stem, [figure]))


def _missing() -> str:
    """Return the programs that pictures need and this machine lacks, or ""."""
    if find_spec("kaleido") is None:
        return f"pictures need kaleido and Chrome or Chromium: {how_to_install('plot')}"
    # kaleido drives the browser with choreographer.
    from choreographer.browsers.chromium import Chromium

    if Chromium.find_browser(skip_local=False) is None:
        return "pictures need Chrome or Chromium, and none is installed"
    return ""
