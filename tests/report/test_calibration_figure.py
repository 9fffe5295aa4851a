"""Measured runs beside their predictions: a mark for what was fitted to and what was held out."""

import pytest

from dpsim.report.figures.calibration_figure import calibration_figure


def row(measured, predicted, low=None, high=None):
    return {
        "nodes": 2,
        "gpus_per_node": 4,
        "batch": 8,
        "measured_ms": measured,
        "predicted_ms": predicted,
        "low_ms": low,
        "high_ms": high,
    }


def test_fitted_and_held_out_runs_are_distinguished():
    answer = {
        "rows": [row(100, 101, 90, 120), row(200, 190, 180, 210)],
        "held_out": {"rows": [row(400, 300, 250, 350)]},
    }
    figure = calibration_figure(answer)
    points = {trace.name: trace for trace in figure.data if trace.mode == "markers"}
    assert [*points] == ["fitted to (2)", "held out (1)", "outside its interval (1)"]
    assert list(points["fitted to (2)"].x) == pytest.approx([0.1, 0.2])
    assert points["outside its interval (1)"].text[0].startswith("2 x 4 GPUs, batch 8")


def test_axes_have_ticks_where_steps_are_alike():
    figure = calibration_figure({"rows": [row(350, 360), row(400, 420)], "held_out": {"rows": []}})
    assert list(figure.layout.xaxis.ticktext) == ["200 ms", "500 ms", "1 s"]
