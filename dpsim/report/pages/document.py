"""The frame of all self-contained pages: one look, light and dark, and nothing loaded.

Figures are drawn by plotly.js's basic bundle (plotly.js-basic-dist-min of npm, MIT), a quarter of
the whole library, with bars, lines and points. It is embedded once in the page, so that the page
opens years later and without a network. Its version is that of the installed plotly: a test says
when ``npm pack plotly.js-basic-dist-min@VERSION`` is due.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from functools import cache
from html import escape
from importlib.resources import files
from typing import TYPE_CHECKING

from dpsim.report.figures.names import as_text
from dpsim.report.theme import FONT, SURFACES, template

if TYPE_CHECKING:
    import plotly.graph_objects as go

_HEIGHT = 640  # pixels, of a figure alone on its page
_BUNDLE = "plotly-basic.min.js"
# The browser loads nothing, whatever content a page has.
_POLICY = (
    "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data: blob:"
)
_LAYOUT = (
    f"body {{ font: 16px/1.5 {FONT}; max-width: 1100px; margin: 2rem auto; padding: 0 1rem; "
    "background: var(--background); color: var(--text); }\n"
    "h1 { font-size: 1.6rem; } "
    "h2 { font-size: 1.2rem; margin-top: 2.2rem; border-bottom: 1px solid var(--border); }\n"
    # A wide table scrolls in its own box; the page itself never does.
    "table { border-collapse: collapse; display: block; overflow-x: auto; "
    "font-variant-numeric: tabular-nums; }\n"
    "th, td { padding: 0.25rem 0.55rem; text-align: right; "
    "border-bottom: 1px solid var(--border); white-space: nowrap; }\n"
    "th:first-child, td:first-child { text-align: left; } "
    "th { background: var(--panel); white-space: normal; }\n"
    "summary { cursor: pointer; color: var(--link); } "
    ".question { font-size: 1.15rem; } "
    "footer { color: var(--muted); font-size: 0.85rem; margin-top: 3rem; }\n"
)
# Figures are drawn light; a browser that prefers dark redraws them.
_PAINT = """
const templates = {light: %s, dark: %s};
const dark = matchMedia("(prefers-color-scheme: dark)");
function paint() {
  const layout = {template: templates[dark.matches ? "dark" : "light"]};
  document.querySelectorAll(".js-plotly-plot").forEach((each) => Plotly.relayout(each, layout));
}
dark.addEventListener("change", paint);
if (dark.matches) paint();
"""


def document(title: str, body: str, *, style: str = "", figures: bool = True) -> str:
    """Return a self-contained HTML page; ``body`` is HTML, ``title`` is text.

    ``figures``: whether the body has any (`figure_html`).
    """
    library = f"<script>{_bundle()}</script>" if figures else ""
    paint = _PAINT % tuple(json.dumps(template(mode)) for mode in ("light", "dark"))
    return (
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">'
        '<meta name="viewport" content="width=device-width">'
        f"<title>dpsim: {escape(title)}</title><style>{_style()}{style}</style>\n"
        f"{library}</head>\n<body>{body}"
        f"{f'<script>{paint}</script>' if figures else ''}</body></html>\n"
    )


def figures_page(title: str, figures: Iterable[go.Figure]) -> str:
    """Return a page of figures only."""
    drawn = []
    for figure in figures:
        if figure.layout.height is None:
            figure.update_layout(height=_HEIGHT)
        drawn.append(figure_html(figure))
    body = "\n".join(drawn)
    return document(title, f"<h1>{escape(title)}</h1>\n{body}")


def figure_html(figure: go.Figure) -> str:
    """Return a figure as a part of a `document`."""
    config = {"displaylogo": False, "responsive": True}
    # `document` contains plotly.js once, so leave it out here.
    return str(as_text(figure).to_html(include_plotlyjs=False, full_html=False, config=config))


def table_html(headings: Iterable[str], rows: Iterable[Iterable[str]], title: str = "") -> str:
    """Return a table as a part of a `document`; headings, cells and title are text."""
    # Names in results come from users' files: all text is escaped here.
    head = "".join(f"<th>{escape(heading)}</th>" for heading in headings)
    lines = ("".join(f"<td>{escape(cell)}</td>" for cell in cells) for cells in rows)
    body = "".join(f"<tr>{line}</tr>" for line in lines)
    caption = f"<caption>{escape(title)}</caption>" if title else ""
    return f"<table>{caption}<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def folded(summary: str, body: str) -> str:
    """Return ``body`` (HTML, figures too), shown on a click on ``summary`` (text)."""
    # A figure drawn while folded has no width; a resize event makes it take the page's width.
    resize = "dispatchEvent(new Event('resize'))"
    return f'<details ontoggle="{resize}"><summary>{escape(summary)}</summary>\n{body}</details>'


@cache
def _bundle() -> str:
    return files(__package__).joinpath(_BUNDLE).read_text(encoding="utf-8")


def _style() -> str:
    """Return the colours of both modes by name, and the layout that uses them."""
    names = ("background", "panel", "text", "muted", "border", "link")
    light, dark = (
        " ".join(f"--{name}: {getattr(SURFACES[mode], name)};" for name in names)
        for mode in ("light", "dark")
    )
    return (
        f":root {{ color-scheme: light dark; {light} }}\n"
        f"@media (prefers-color-scheme: dark) {{ :root {{ {dark} }} }}\n{_LAYOUT}"
    )
