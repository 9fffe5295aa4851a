"""Workers that are measured cells of several GPUs."""

import json

import numpy as np
import pytest
from pydantic import ValidationError

from dpsim import simulate
from dpsim.studies.tune import tune

NETWORK = {"fabric": "single-switch", "nic": {"rate": "20 MB/s", "latency": 0}, "nics_per_node": 1}


def measured(cell, step_time="3 s"):
    return {"cell": cell, "step_time": step_time, "source": "a stopwatch"}


@pytest.fixture
def celled(tiny):
    """Builds a scenario on nodes of two GPUs, whose links inside take no time, behind one card."""
    instant = {"rate": "1 PB/s", "latency": 0}
    node = {
        "gpu": {"peak": {"fp32": "1 TFLOP/s"}, "memory": "16 GB", "memory_bandwidth": "3 PB/s"},
        "devices": {"gpu": 2, "cpu": 1},
        "edges": [{"between": [f"gpu{number}", "cpu0"], "link": instant} for number in range(2)],
        "nic_slots": ["cpu0"],
        "nic_bus": instant,
        "nics": {"link": instant},
    }

    def build(nodes, cell, step_time="3 s", **rest):
        scenario = tiny(nodes, cluster={"node": node, "network": NETWORK}, **rest)
        given = scenario.model_dump(mode="json", exclude_unset=True)
        return type(scenario).model_validate({**given, "calibration": measured(cell, step_time)})

    return build


def test_cells_of_a_node_exchange_what_each_gpu_holds_over_its_card(celled):
    """Two cells of two: each GPU all-reduces its half of 2 MB with its twin, both over one card:
    2 MB in each direction at 20 MB/s are 0.1 s after the measured 3 s.
    """
    result = simulate(celled(2, 2))
    np.testing.assert_allclose(result.steps.step, 3 + 0.1, rtol=1e-6)
    np.testing.assert_allclose(result.steps.compute, 3, rtol=1e-12)
    assert result.traffic.sent_in_total == 4 * 1e6
    assert result.throughput_samples_per_s == pytest.approx(4 * 8 / 3.1)


def test_cells_of_whole_nodes_exchange_by_quarters(celled):
    """Two cells of two nodes: each GPU all-reduces a quarter with its twin two nodes away, and a
    card carries two of them, 1 MB: 0.05 s.
    """
    result = simulate(celled(4, 4))
    np.testing.assert_allclose(result.steps.step, 3 + 0.05, rtol=1e-6)
    assert result.traffic.sent_in_total == 8 * 0.5e6


def test_a_single_cell_takes_the_measured_time(celled):
    result = simulate(celled(1, 2, "1.25 s"))
    np.testing.assert_allclose(result.steps.step, 1.25, rtol=1e-12)
    assert result.traffic.sent_in_total == 0
    assert result.calibration["cell"] == 2
    assert result.calibration["compute_scale"] == pytest.approx(1.25 / 10.5)


def test_a_measured_cell_leaves_little_doubt_of_computing(celled):
    """Its step was measured; a single cell exchanges nothing."""
    interval = simulate(celled(1, 2, "1.25 s")).interval
    assert interval.low < 1.25 < interval.high < 1.2 * interval.low
    assert interval.basis.startswith("computing: 1 measured run, the nearest on 1 node")


def test_each_gpu_holds_its_part_of_the_model(celled):
    """Of 500,000 parameters in fp32 with a momentum."""
    held = simulate(celled(2, 2)).memory.held
    assert (held.weights, held.gradients, held.optimizer) == (1e6, 1e6, 1e6)
    assert held.buckets == 1e6


def test_a_cell_goes_at_the_pace_of_its_slowest_gpu(celled):
    slow = {"slow": [{"workers": [3], "factor": 2}]}
    compute = simulate(celled(2, 2, disturbance=slow)).steps.compute
    np.testing.assert_allclose(compute, np.tile([3, 3, 6, 6], (3, 1)), rtol=1e-12)


def test_jitter_is_that_of_the_slower_of_two(celled):
    jitter = {"jitter": {"kind": "lognormal", "sigma": 0.3}}
    compute = simulate(celled(2, 2, disturbance=jitter)).steps.compute
    np.testing.assert_array_equal(compute[:, 0], compute[:, 1])
    assert (compute[:, 1] != compute[:, 2]).all()


@pytest.mark.parametrize("sync", ["ssp", "local-sgd", "backup"])
@pytest.mark.parametrize("overlap", ["buckets", "priority"])
def test_cells_meet_in_any_way_of_all_reduces(celled, sync, overlap):
    result = simulate(celled(4, 2, sync=sync, overlap=overlap, run={"steps": 8}))
    assert result.traffic.busiest_link_utilisation <= 1 + 1e-9
    assert result.traffic.sent_in_total > 0


@pytest.mark.parametrize(
    ("cell", "strategy", "message"),
    [
        (3, {}, "calibration.cell must divide the 4 GPUs, but got 3"),
        (2, {"aggregation": "sharded"}, "must be used with all-reduces of all cells"),
        (2, {"sync": {"kind": "local-sgd", "group": 2}}, "must be used with all-reduces of all"),
    ],
)
def test_what_cells_cannot_do_is_refused(celled, cell, strategy, message):
    with pytest.raises(ValidationError, match=message):
        celled(2, cell, **strategy)


def test_a_search_keeps_the_scale_of_a_cell(celled, tmp_path):
    """What is tried would not have taken the measured step, but the factor holds."""
    given = celled(2, 2).model_dump(mode="json", exclude_unset=True)
    path = tmp_path / "cells.yaml"
    path.write_text(json.dumps({**given, "calibration": measured(2)}))
    found = tune(path, over=["strategy.overlap.kind=sequential,wfbp"])
    for each in found.evaluations:
        assert each.scenario.calibration.compute_scale == pytest.approx(3 / 10.5)
        assert each.scenario.cell == 2
