"""Measured against drawn steps: their quantiles, and one after the other."""

import json

import numpy as np
import pytest

from dpsim.disturbance import CorrelatedJitterConfig, fit_jitter
from dpsim.report.figures.jitter_figure import jitter_figure

NODES = [0, 0, 1, 1]


@pytest.fixture(scope="module")
def times():
    jitter = CorrelatedJitterConfig(kind="correlated", sigma=0.05, stall_every=50, stall=2)
    return jitter.factors(4, 1000, 3, 2)


def answer(times):
    return {"steps": len(times), "ranks": 4, **fit_jitter(times, NODES).curves(times, NODES)}


def test_both_are_drawn_as_quantiles_and_in_time(times):
    above, below, drawn, drawn_in_time = jitter_figure(answer(times)).data
    assert [each.name for each in (above, below)] == ["measured"] * 2
    assert [each.name for each in (drawn, drawn_in_time)] == ["drawn"] * 2
    whole = times.max(axis=1) / times.max(axis=1).mean()
    assert above.y == pytest.approx(np.quantile(whole, np.array(above.x) / 100))
    assert below.y == pytest.approx(whole[:400])
    assert len(drawn_in_time.y) == 400
    assert above.xaxis != below.xaxis


def test_what_was_drawn_has_the_quantiles_of_what_was_measured(times):
    above, _, drawn, _ = jitter_figure(answer(times)).data
    # All but those next to where the stalls begin, of which one in fifty steps has one.
    calm = np.array(above.x) < 97
    assert np.array(drawn.y)[calm] == pytest.approx(np.array(above.y)[calm], rel=0.02)
    assert drawn.y[-1] == pytest.approx(above.y[-1], rel=0.1)


def test_the_command_draws_a_page_and_what_it_printed_is_drawn_again(dpsim, tmp_path, times):
    rows = [f"{rank},{seconds}" for step in times for rank, seconds in enumerate(step)]
    steps, page = tmp_path / "steps.csv", tmp_path / "jitter.html"
    steps.write_text("\n".join(["rank,step_s", *rows]))
    code, out, err = dpsim("fit-jitter", steps, "--plot", page, "--json")
    assert code == 0
    assert f"wrote {page}" in err
    text = page.read_text()
    assert "Steps as measured and as drawn from the fit" in text
    assert "src=" not in text.split("<body>")[1]
    told = json.loads(out)
    assert len(told["series"]["measured"]) == 400
    (tmp_path / "fit.json").write_text(out)
    code, out, _ = dpsim("plot", tmp_path / "fit.json", "--json")
    assert code == 0
    assert "measured" in out
    (tmp_path / "fit.json").write_text(json.dumps({**told, "curve": []}))
    code, _, err = dpsim("plot", tmp_path / "fit.json")
    assert code == 2
    assert "must be JSON that dpsim fit-jitter printed" in err


def test_nothing_is_read_for_a_plot_that_cannot_be_drawn(dpsim, tmp_path):
    code, _, err = dpsim("fit-jitter", tmp_path / "none.csv", "--plot", "jitter.gif")
    assert code == 2
    assert "must end in .png, .svg, .html" in err
