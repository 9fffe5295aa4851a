"""Names in figures: marks that are not the figures' own are letters."""

import plotly.graph_objects as go

from dpsim.report.figures.names import as_text

LINK = "<a href='http://example.org'>x</a>"
AS_TEXT = "&lt;a href='http://example.org'>x&lt;/a>"


def test_foreign_marks_are_letters_wherever_words_may_stand():
    figure = go.Figure()
    figure.add_bar(
        x=[LINK, "b"],
        y=[1, 2],
        name=LINK,
        text=[LINK, "<b>own</b>"],
        customdata=[[LINK], ["v"]],
        hovertemplate=f"{LINK}<br>%{{x}}<extra>{LINK}</extra>",
    )
    axis = {"title": LINK, "categoryarray": [LINK, "b"]}
    figure.update_layout(title=LINK, xaxis=axis, legend_title=LINK, annotations=[{"text": LINK}])
    assert as_text(figure) is figure
    (bar,), layout = figure.data, figure.layout
    assert list(bar.x) == list(layout.xaxis.categoryarray) == [AS_TEXT, "b"]
    assert list(bar.text) == [AS_TEXT, "<b>own</b>"]
    assert bar.hovertemplate == f"{AS_TEXT}<br>%{{x}}<extra>{AS_TEXT}</extra>"
    assert "<a" not in figure.to_json().replace("\\u003c", "<")


def test_figures_without_foreign_marks_stay_as_they_are():
    figure = go.Figure(go.Scatter(x=[1, 2], y=[3, 4], text=["a<br>b", None], name="c"))
    before = figure.to_json()
    assert as_text(figure).to_json() == before
