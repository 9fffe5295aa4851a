"""The look of everything that is drawn: one font, one palette, light and dark.

Figures, reports, the dashboard and its server's configuration take it from here.

The palette has seven colours for data: each has a contrast of at least 3 to 1 to both backgrounds
(WCAG 2.1, 1.4.11), and a distance of at least 23 units of CIE Lab to the others, for people with
any kind of colour vision (simulated after Machado, Oliveira and Fernandes, 2009). They were found
by a search near the hues of Okabe and Ito's "Color universal design" (2008), whose lighter half is
too pale for a white page. Tests check both limits.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

Mode = Literal["light", "dark"]

FONT = '"Source Sans", system-ui, sans-serif'
# Greys for both modes, for grids and frames behind data.
FAINT = "rgba(138, 143, 152, 0.12)"
LINE = "rgba(138, 143, 152, 0.45)"

COLOUR: Mapping[str, str] = {
    "blue": "#1954ea",
    "orange": "#d57f03",
    "bluish green": "#06754c",
    "reddish purple": "#a1398e",
    "sky blue": "#209ce0",
    "vermilion": "#af3e10",
    "grey": "#909597",
}
# From an idle link to a full one; line width and a number show the same.
LOAD = (COLOUR["grey"], COLOUR["orange"], COLOUR["vermilion"])
SERIES = tuple(colour for name, colour in COLOUR.items() if name != "grey")


@dataclass(frozen=True, slots=True)
class Surface:
    """The colours of a page in one mode.

    ``text``, ``muted``, ``link``, ``good`` and ``bad`` are colours of text, with a contrast of at
    least 4.5 to 1 to ``background`` and ``panel`` (WCAG 2.1, 1.4.3).
    """

    background: str
    panel: str
    text: str
    muted: str
    border: str
    link: str
    good: str
    bad: str


SURFACES: Mapping[Mode, Surface] = {
    "light": Surface(
        "#ffffff", "#f4f6f9", "#1c2733", "#56616e", "#d5d9e0", "#0a58ca", "#056b45", "#a8330b"
    ),
    "dark": Surface(
        "#0e1117", "#1a1f29", "#e8ebf0", "#a3adba", "#3a4250", "#7fb2ff", "#55c795", "#ff9a76"
    ),
}


def template(mode: Mode = "light") -> dict[str, Any]:
    """Return the plotly template of ``mode``: everything that a figure does not set itself."""
    surface = SURFACES[mode]
    axis = {
        "gridcolor": FAINT,
        "zerolinecolor": LINE,
        "linecolor": LINE,
        "tickcolor": LINE,
        "automargin": True,
        "ticklabelstandoff": 4,
        "title": {"standoff": 10},
    }
    hover = {
        "bgcolor": surface.panel,
        "bordercolor": surface.border,
        "font": {"family": FONT, "color": surface.text},
    }
    return {
        "layout": {
            # Text such as "4" is the name of a category, so plotly must not turn it into a number.
            "autotypenumbers": "strict",
            "font": {"family": FONT, "size": 13, "color": surface.text},
            "colorway": list(SERIES),
            "paper_bgcolor": surface.background,
            "plot_bgcolor": surface.background,
            "xaxis": axis,
            "yaxis": axis,
            "hoverlabel": hover,
            "annotationdefaults": {
                "font": {"color": surface.text},
                "arrowcolor": surface.muted,
                "arrowhead": 0,
                "arrowwidth": 1,
            },
            "shapedefaults": {"line": {"color": surface.muted}},
            "legend": {"bgcolor": "rgba(0, 0, 0, 0)"},
            "modebar": {
                "bgcolor": "rgba(0, 0, 0, 0)",
                "color": surface.muted,
                "activecolor": surface.text,
            },
        },
        # Draw bars without a gap, because a gap between two parts of a step would look like time.
        "data": {"bar": [{"marker": {"line": {"width": 0}}}]},
    }


def ink_on(colour: str) -> str:
    """Return black or white, whichever is more readable on ``colour``."""
    return max(("#000000", "#ffffff"), key=lambda ink: contrast(ink, colour))


def contrast(first: str, second: str) -> float:
    """Return the contrast ratio of two colours, from 1 to 21 (WCAG 2.1)."""
    darker, lighter = sorted((luminance(first), luminance(second)))
    return (lighter + 0.05) / (darker + 0.05)


def luminance(colour: str) -> float:
    """Return the relative luminance of ``#rrggbb``, from 0 to 1 (WCAG 2.1)."""
    red, green, blue = linear(colour)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def linear(colour: str) -> tuple[float, float, float]:
    """Return linear red, green and blue of ``#rrggbb`` (sRGB), each from 0 to 1."""
    red, green, blue = (_linear(int(colour[at : at + 2], 16) / 255) for at in (1, 3, 5))
    return red, green, blue


def _linear(value: float) -> float:
    # sRGB's own threshold; WCAG had 0.03928 until 2021. No 8-bit colour lies between the two.
    return value / 12.92 if value <= 0.04045 else float(((value + 0.055) / 1.055) ** 2.4)
