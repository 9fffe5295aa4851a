"""Draw a plotly figure by matplotlib: lines, points and bars, on one or several panels.

Interactive features of a browser, such as hover text, are left out.
"""

from __future__ import annotations

import re
from io import BytesIO
from typing import TYPE_CHECKING, Any

import numpy as np

from dpsim.base.errors import FailedError, how_to_install

if TYPE_CHECKING:
    import plotly.graph_objects as go

_WIDE, _HIGH = 9.0, 5.2  # inches
_DOTS = 150  # per inch, of a PNG
# Margins outside the panels, as shares of the picture: left, bottom, right, top.
_LEFT, _BOTTOM, _RIGHT, _TOP = 0.13, 0.13, 0.03, 0.2
_LINES = {"dash": "--", "dot": ":", "dashdot": "-.", "longdash": (0, (8, 3))}
_GREY, _BAND = "#808080", "#ececec"


def check_installed() -> None:
    """Raise FailedError with a hint on installing matplotlib if it is missing."""
    try:
        import matplotlib  # noqa: F401
    except ImportError:
        raise FailedError(f"matplotlib is needed for pictures; {how_to_install('plot')}") from None


def picture(figure: go.Figure, form: str) -> bytes:
    """Return the figure as ``png`` or ``svg``, with the same bytes for the same figure."""
    check_installed()
    import matplotlib as mpl
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    # Without pyplot, which keeps every figure and needs a display.
    drawn = Figure(figsize=(_WIDE, _HIGH))
    FigureCanvasAgg(drawn)

    panels: dict[tuple[str, str], Any] = {}
    stacked: dict[tuple[str, object], float] = {}
    for trace in figure.data:
        # A trace without named axes is on the first ones.
        place = (trace.xaxis or "x", trace.yaxis or "y")
        if place not in panels:
            panels[place] = _panel(drawn, figure, place)
        _draw(panels[place], trace, stacked)
    for (across, up), panel in panels.items():
        _scale(panel, figure.layout, across, up)

    title = plain_title(figure).replace("<br>", "\n")
    drawn.suptitle(title, x=0.02, y=0.98, ha="left", va="top", fontsize=12)
    _legend(drawn, [*panels.values()])

    file = BytesIO()
    # Without a date and random names, which would differ each time.
    dated = {"Date": None} if form == "svg" else None
    with mpl.rc_context({"svg.hashsalt": "dpsim"}):
        # Tight, since long names of bars beside the panel would be cut.
        drawn.savefig(file, format=form, dpi=_DOTS, metadata=dated, bbox_inches="tight")
    return file.getvalue()


def plain_title(figure: go.Figure) -> str:
    """Return a figure's title without HTML, except for line breaks."""
    return re.sub(r"</?su[bp]>", "", str(figure.layout.title.text or ""))


def _panel(drawn: Any, figure: go.Figure, place: tuple[str, str]) -> Any:
    """Add axes at the place of the figure's panel."""
    left, right = _axis(figure.layout, place[0]).domain or (0, 1)
    low, high = _axis(figure.layout, place[1]).domain or (0, 1)
    wide, tall = 1 - _LEFT - _RIGHT, 1 - _BOTTOM - _TOP
    box = (_LEFT + left * wide, _BOTTOM + low * tall, (right - left) * wide, (high - low) * tall)
    panel = drawn.add_axes(box)
    panel.grid(visible=True, color="#e5e5e5", linewidth=0.7)
    panel.set_axisbelow(True)
    for side in ("top", "right"):
        panel.spines[side].set_visible(False)
    return panel


def _axis(layout: Any, name: str) -> Any:
    """Return the layout's axis for a trace's ``x2``."""
    return layout[f"{name[0]}axis{name[1:]}"]


def _draw(panel: Any, trace: Any, stacked: dict[tuple[str, object], float]) -> None:
    if trace.type == "bar":
        _bars(panel, trace, stacked)
        return
    if trace.fill == "toself":
        panel.fill(
            _plain(trace.x), _plain(trace.y), color=_BAND, linewidth=0, label=_name(trace), zorder=0
        )
        return
    line, marker, mode = trace.line, trace.marker, trace.mode or "lines"
    steps = {"hv": "steps-post", "vh": "steps-pre"}.get(line.shape or "", "default")
    panel.plot(
        _plain(trace.x),
        _plain(trace.y),
        label=_name(trace),
        color=_colour(line.color, marker.color),
        linestyle=_LINES.get(line.dash or "", "-") if "lines" in mode else "none",
        marker="o" if "markers" in mode else None,
        markersize=5,
        linewidth=1.8,
        drawstyle=steps,
    )
    if trace.error_y.array is not None:
        up, down = trace.error_y.array, trace.error_y.arrayminus
        ends = [_plain(up if down is None else down), _plain(up)]
        colour = _colour(marker.color)
        look = {"fmt": "none", "ecolor": colour, "elinewidth": 0.7, "alpha": 0.5, "zorder": 1}
        panel.errorbar(_plain(trace.x), _plain(trace.y), yerr=ends, **look)


def _plain(values: Any) -> list[Any]:
    """Return the values for matplotlib: gaps become NaN."""
    if values is None:
        return []
    return [float("nan") if each is None else each for each in values]


def _bars(panel: Any, trace: Any, stacked: dict[tuple[str, object], float]) -> None:
    """Draw bars stacked on those drawn before at the same place."""
    lies = trace.orientation == "h"
    names, lengths = (trace.y, trace.x) if lies else (trace.x, trace.y)
    names = [str(name).replace("<br>", "\n") for name in _plain(names)]
    lengths = np.array(_plain(lengths), dtype=float)
    place = f"{trace.xaxis}{trace.yaxis}"
    begins = [stacked.get((place, name), 0.0) for name in names]
    for name, begin, length in zip(names, begins, lengths, strict=True):
        stacked[(place, name)] = begin + length
    colour = trace.marker.color
    look = {"label": _name(trace), "color": colour if isinstance(colour, str) else None}
    if lies:
        panel.barh(names, lengths, left=begins, **look)
    else:
        panel.bar(names, lengths, bottom=begins, **look)


def _name(trace: Any) -> str:
    """Return the label in the legend, which leaves out labels that begin with an underscore."""
    return "_" if trace.showlegend is False or not trace.name else str(trace.name)


def _colour(*colours: Any) -> str | None:
    return next((each for each in colours if isinstance(each, str)), None)


def _scale(panel: Any, layout: Any, across: str, up: str) -> None:
    """Set titles, scales, ticks and directions of both axes, and draw horizontal lines."""
    for which, name in (("x", across), ("y", up)):
        axis = _axis(layout, name)
        if axis.title.text:
            panel.set(**{f"{which}label": axis.title.text})
        if axis.type == "log":
            panel.set(**{f"{which}scale": "log"})
        if axis.tickvals is not None:
            _mark(panel, which, axis)
        if axis.autorange == "reversed":
            getattr(panel, f"invert_{which}axis")()
    for shape in layout.shapes:
        if shape.type == "line" and shape.y0 == shape.y1 and shape.yref == up:
            panel.axhline(shape.y0, color=_GREY, linewidth=1)


def _mark(panel: Any, which: str, axis: Any) -> None:
    """Set the ticks that an axis of the figure names, on the panel's ``which`` of x and y."""
    low, high = getattr(panel, f"get_{which}lim")()
    texts = axis.ticktext or [f"{each:g}" for each in axis.tickvals]
    # Ticks beyond the limits would widen them.
    inside = {
        mark: text for mark, text in zip(axis.tickvals, texts, strict=True) if low <= mark <= high
    }
    drawn_axis = getattr(panel, f"{which}axis")
    drawn_axis.set_ticks([*inside], [*inside.values()])
    # A logarithmic axis would also label minor ticks, if it has room.
    drawn_axis.minorticks_off()


def _legend(drawn: Any, panels: list[Any]) -> None:
    """Draw one legend for all panels, if there are several labels."""
    named: dict[str, Any] = {}
    for panel in panels:
        # The same trace may be on several panels, but is once in the legend.
        for handle, label in zip(*panel.get_legend_handles_labels(), strict=True):
            named.setdefault(label, handle)
    if len(named) > 1:
        # Between the title and the panels, in the room that _TOP leaves.
        drawn.legend(
            [*named.values()],
            [*named],
            loc="upper left",
            bbox_to_anchor=(0.02, 0.9),
            ncols=min(4, len(named)),
            frameon=False,
            fontsize=9,
        )
