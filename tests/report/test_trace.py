"""Traces: what Perfetto needs, slices that nest, and times that are the result's and the
timeline's.
"""

import json
from collections import defaultdict
from pathlib import Path

import pytest

from dpsim import load_scenario
from dpsim.engine import Recording, run_scenario
from dpsim.report.trace import STEPS, trace

SCENARIOS = Path(__file__).parents[2] / "scenarios"
FILES = (
    "quickstart",
    "priority",
    "ssp",
    "ad-psgd",
    "backup",
    "local-sgd",
    "gossip",
    "host",
    "average-loss",
)
FEW = ["run.steps=4", "run.warmup=1"]
CLOSE = 1e-3  # us


def recorded(file):
    return run_scenario(load_scenario(SCENARIOS / f"{file}.yaml", FEW), Recording(STEPS))


def of_kind(content, kind):
    return [event for event in content["traceEvents"] if event["ph"] == kind]


def names(content, what):
    return {
        (event["pid"], event["tid"]): event["args"]["name"]
        for event in of_kind(content, "M")
        if event["name"] == what
    }


@pytest.mark.parametrize("file", FILES)
def test_slices_of_a_thread_nest_and_steps_are_as_long_as_the_results(file):
    scenario = load_scenario(SCENARIOS / f"{file}.yaml", [*FEW, "cluster.nodes=2"])
    run = run_scenario(scenario, Recording(steps=2, first=1))
    content = json.loads(json.dumps(trace(run), allow_nan=False))
    threads = defaultdict(list)
    for event in of_kind(content, "X"):
        assert event["dur"] >= 0
        threads[event["pid"], event["tid"]].append(event)
    for events in threads.values():
        open_ = []
        for event in sorted(events, key=lambda each: (each["ts"], -each["dur"])):
            while open_ and open_[-1] <= event["ts"] + CLOSE:
                open_.pop()
            assert not open_ or event["ts"] + event["dur"] <= open_[-1] + CLOSE, event
            open_.append(event["ts"] + event["dur"])
    assert set(threads) <= set(names(content, "thread_name"))

    steps = run.all_steps
    shown = [event for event in of_kind(content, "X") if event["name"] in ("step 1", "step 2")]
    second = run.scenario.run.warmup + 1  # of those that count, after a warm-up as long as needed
    expected = [
        steps.step[number, worker]
        for worker in range(scenario.cluster.ranks)
        for number in (second, second + 1)
    ]
    assert [event["dur"] / 1e6 for event in shown] == pytest.approx(expected, rel=1e-9)


def test_what_is_computed_is_the_timelines(tiny):
    run = run_scenario(tiny(overlap="wfbp"), Recording(1))
    content = trace(run)
    threads = names(content, "thread_name")
    found = sorted(
        (
            event["pid"] - 1,
            threads[event["pid"], event["tid"]].partition(" ")[2],
            event["name"],
            event["ts"] / 1e6,
            event["dur"] / 1e6,
        )
        for event in of_kind(content, "X")
        if threads[event["pid"], event["tid"]].startswith("gpu")
        and not event["name"].startswith("step")
    )
    expected = sorted(
        (w, stream, name, start, end - start) for w, stream, name, start, end in run.intervals()
    )
    assert [each[:3] for each in found] == [each[:3] for each in expected]
    assert [time for each in found for time in each[3:]] == pytest.approx(
        [time for each in expected for time in each[3:]]
    )


def test_links_carry_what_is_sent_at_the_share_of_their_rate(tiny):
    """1 MB from each of two workers each way and layer, 1 s at 1 MB/s.

    All of the rate, from 7 to 8 and from 10 to 11.
    """
    content = trace(run_scenario(tiny(overlap="wfbp"), Recording(1)))
    threads = names(content, "thread_name")
    sent = [
        event
        for event in of_kind(content, "X")
        if threads[event["pid"], event["tid"]] == "node0/nic0->switch"
    ]
    assert [(event["ts"] / 1e6, event["dur"] / 1e6, event["args"]["bytes"]) for event in sent] == [
        pytest.approx((7, 1, 1_000_000)),
        pytest.approx((10, 1, 1_000_000)),
    ]
    loads = [
        event for event in of_kind(content, "C") if event["name"] == "load of node0/nic0->switch"
    ]
    assert [(event["ts"] / 1e6, event["args"]["share"]) for event in loads] == [
        pytest.approx(point) for point in ((7, 1), (8, 0), (10, 1), (11, 0))
    ]


def test_staleness_is_counted(tiny):
    scenario = tiny(
        aggregation="parameter-server",
        sync="asp",
        disturbance={"slow": [{"workers": [1], "factor": 2}]},
    )
    run = run_scenario(scenario, Recording(STEPS))
    steps, content = run.steps, trace(run)
    gaps = [
        event["args"]["iterations"]
        for event in of_kind(content, "C")
        if event["name"] == "gpu0 clock gap"
    ]
    versions = [
        event["args"]["versions"]
        for event in of_kind(content, "C")
        if event["name"] == "gpu0 staleness"
    ]
    assert gaps == [*steps.clock_gap[:, 0], *steps.clock_gap[:, 1]]
    assert versions == [*steps.versions[:, 0], *steps.versions[:, 1]]
    assert max(versions) > 0


def test_a_process_for_each_node_and_one_for_the_network():
    content = trace(recorded("oversubscribed"), links=10_000)
    processes = {
        event["args"]["name"] for event in of_kind(content, "M") if event["name"] == "process_name"
    }
    nodes = {name for name in processes if name.startswith("node")}
    assert processes == nodes | {"network"}
    assert any(
        "->spine" in name
        for (pid, _), name in names(content, "thread_name").items()
        if pid == len(nodes) + 1
    )


def test_only_so_many_workers_and_links_are_shown_and_it_says_so():
    content = trace(recorded("quickstart"), workers=4, links=5)
    message = content["otherData"]
    assert (message["workers"], message["workers_shown"], message["links_shown"]) == (32, 4, 5)
    assert message["links_loaded"] > 5
    assert sum(event["name"] == "step 0" for event in of_kind(content, "X")) == 4
