"""The front as a figure.

Every configuration that can be, those on the front as a line, the best and the file's own marked.
"""

import pytest

from dpsim.report.figures.front_figure import front_figure
from dpsim.studies.tune import tune

TWO_NODES = """name: tiny
cluster: {nodes: 2, node: dgx1-v100, gpus_per_node: 1, network: {fabric: single-switch, nic: 1GbE, nics_per_node: 1}}
workload: {model: alexnet, batch_per_gpu: 64}
run: {steps: 2, warmup: 0}
"""


@pytest.fixture(scope="module")
def tuning(tmp_path_factory):
    path = tmp_path_factory.mktemp("front") / "tiny.yaml"
    path.write_text(TWO_NODES)
    return tune(
        path,
        over=["cluster.nodes=1,2", "strategy.compression.kind=none,int8"],
        objective="throughput",
    )


def test_traces_are_the_tunings_points(tuning):
    figure = front_figure(tuning)
    traces = {trace.name: trace for trace in figure.data}
    assert list(traces) == ["tried, with few steps", "front", "as the file is", "best throughput"]
    assert list(traces["tried, with few steps"].x) == [each.time_s for each in tuning.evaluations]
    assert list(traces["front"].y) == [each.cost for each in tuning.front]
    assert traces["front"].customdata[0] == "<br>".join(
        f"{path}: {value}" for path, value in tuning.front[0].values.items()
    )
    assert tuple(traces["as the file is"].x) == (tuning.baseline.time_s,)
    assert tuple(traces["best throughput"].y) == (tuning.best.cost,)
    assert figure.layout.xaxis.title.text == "time of a million samples (s)"
    assert figure.layout.yaxis.title.text == "cost of a million samples (GPU hours)"
