"""A figure as a file: a page by plotly, or a picture by matplotlib, which needs no browser."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from dpsim.base.errors import DpsimError
from dpsim.base.terminal import write_whole
from dpsim.report.pages.document import figures_page
from dpsim.report.plots.picture import check_installed, picture, plain_title

if TYPE_CHECKING:
    import plotly.graph_objects as go

PICTURES = (".png", ".svg")
ENDINGS = (*PICTURES, ".html")


def check_ending(path: Path) -> None:
    """Raise DpsimError for a file name without a known ending, before anything is computed."""
    if path.suffix.lower() not in ENDINGS:
        raise DpsimError(f"{path}: must end in {', '.join(ENDINGS)}, but got {path.suffix!r}")
    if path.suffix.lower() in PICTURES:
        check_installed()


def write_figure(figure: go.Figure, path: Path) -> None:
    """Write ``figure`` to ``path`` in the format of its ending.

    Raises DpsimError for other endings, FailedError if matplotlib is needed but missing.
    """
    check_ending(path)
    ending = path.suffix.lower()
    if ending in PICTURES:
        write_whole(path, picture(figure, ending.removeprefix(".")))
        return
    title = plain_title(figure).replace("<br>", " ") or path.stem
    write_whole(path, figures_page(title, [figure]))
