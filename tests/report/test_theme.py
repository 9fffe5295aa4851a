"""The palette: contrast in both modes, and colours distinct for people with any colour vision."""

from itertools import combinations, pairwise

import numpy as np
import plotly.graph_objects as go
import pytest

from dpsim.engine import PARTS
from dpsim.report.figures.style import PART_COLOURS, in_mode, set_style
from dpsim.report.theme import COLOUR, SERIES, SURFACES, contrast, ink_on, linear, luminance

# Machado, Oliveira and Fernandes, "A physiologically-based model for simulation of color vision
# deficiency", 2009, severity 1: what remains of linear red, green and blue.
VISIONS = {
    "all cones": np.eye(3),
    "no red cones": np.array(
        [
            [0.152286, 1.052583, -0.204868],
            [0.114503, 0.786281, 0.099216],
            [-0.003882, -0.048116, 1.051998],
        ]
    ),
    "no green cones": np.array(
        [
            [0.367322, 0.860646, -0.227968],
            [0.280085, 0.672501, 0.047413],
            [-0.011820, 0.042940, 0.968881],
        ]
    ),
    "no blue cones": np.array(
        [
            [1.255528, -0.076749, -0.178779],
            [-0.078411, 0.930809, 0.147602],
            [0.004733, 0.691367, 0.303900],
        ]
    ),
}
XYZ = np.array([[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]])
WHITE = np.array([0.9505, 1.0, 1.089])


def lab(colour, vision):
    """CIE Lab of a colour as it is seen."""
    x, y, z = XYZ @ np.clip(vision @ np.array(linear(colour)), 0, 1) / WHITE
    root = [np.cbrt(v) if v > 0.008856 else 7.787 * v + 16 / 116 for v in (x, y, z)]
    return np.array([116 * root[1] - 16, 500 * (root[0] - root[1]), 200 * (root[1] - root[2])])


@pytest.mark.parametrize("name", VISIONS)
def test_colours_are_distinct_for_any_colour_vision(name):
    seen = {colour: lab(colour, VISIONS[name]) for colour in COLOUR.values()}
    nearest = min(np.linalg.norm(seen[a] - seen[b]) for a, b in combinations(seen, 2))
    assert nearest > 23


@pytest.mark.parametrize("mode", SURFACES)
def test_colours_of_data_stand_out_from_the_page_and_text_is_read_on_all_of_it(mode):
    surface = SURFACES[mode]
    assert min(contrast(colour, surface.background) for colour in COLOUR.values()) >= 3
    inks = (surface.text, surface.muted, surface.link, surface.good, surface.bad)
    for ink in inks:
        assert contrast(ink, surface.background) >= 4.5
        assert contrast(ink, surface.panel) >= 4.5


def test_what_is_written_in_a_bar_is_read():
    assert min(contrast(ink_on(colour), colour) for colour in COLOUR.values()) >= 4.5


def test_parts_of_a_step_have_colours_of_their_own_and_neighbours_differ_in_grey_too():
    shown = [luminance(PART_COLOURS[part]) for part in PARTS]
    assert all(abs(one - other) > 0.1 for one, other in pairwise(shown))
    assert len(set(PART_COLOURS.values())) == len(PARTS)


def test_contrast_is_that_of_the_standard():
    assert contrast("#000000", "#ffffff") == pytest.approx(21)
    assert contrast("#777777", "#ffffff") == pytest.approx(4.48, abs=0.01)


def test_a_figure_is_drawn_light_and_shown_dark():
    figure = set_style(go.Figure(), "title", "x", "y")
    assert figure.layout.template.layout.paper_bgcolor == SURFACES["light"].background
    dark = in_mode(figure, "dark").layout
    assert dark.template.layout.font.color == SURFACES["dark"].text
    assert dark.title.text == "title"
    assert dark.font.color is None
    assert list(dark.template.layout.colorway) == list(SERIES)
