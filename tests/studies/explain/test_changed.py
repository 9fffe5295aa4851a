"""Turning a knob on the checked model is what ``--set`` does to the file, for every knob there
is.
"""

import json
from pathlib import Path

import pytest

from dpsim import DpsimError, load_scenario
from dpsim.base.units import RATE, TIME
from dpsim.scenario import shape_of
from dpsim.studies.explain import KNOBS, as_options, changed
from dpsim.topology.fabrics import NetworkConfig

SCENARIOS = Path(__file__).parents[3] / "scenarios"
FILES = (
    "quickstart.yaml",
    "disturbed.yaml",
    "host.yaml",
    "oversubscribed.yaml",
    "parameter-server.yaml",
    "ranking-flips.yaml",
    "testbed/ring.yaml",
)


def files():
    found = [SCENARIOS / name for name in FILES if (SCENARIOS / name).is_file()]
    return [*found, *sorted((SCENARIOS / "testbed").glob("*.yaml"))[:1]]


def ways(scenario):
    """Every way to turn every knob that can be turned, by the knob's name."""
    options = {name: knob.options(scenario) for name, knob in KNOBS.items()}
    return {
        (name, change.words): change.values
        for name, found in options.items()
        if not isinstance(found, str)
        for change in found
    }


@pytest.mark.parametrize("file", files(), ids=lambda path: path.stem)
def test_a_change_is_what_set_makes_of_the_file(file):
    scenario = load_scenario(file)
    for (name, words), values in ways(scenario).items():
        try:
            expected = load_scenario(file, as_options(values))
        except DpsimError:
            with pytest.raises(DpsimError):
                changed(scenario, values)
            continue
        assert changed(scenario, values) == expected, (name, words)
        assert changed(scenario, values) != scenario, (name, words)


def test_every_knob_is_turned_somewhere_or_says_why_not():
    scenarios = [
        load_scenario(SCENARIOS / name)
        for name in ("quickstart.yaml", "disturbed.yaml", "parameter-server.yaml")
    ]
    stored = load_scenario(SCENARIOS / "quickstart.yaml", ["workload.input.kind=storage"])
    half = load_scenario(SCENARIOS / "quickstart.yaml", ["workload.precision=fp16"])
    ordinary = load_scenario(SCENARIOS / "quickstart.yaml", ["cluster.condition=ordinary"])
    passes = ["workload.gradient_accumulation=2", "workload.checkpoint=full"]
    again = load_scenario(SCENARIOS / "quickstart.yaml", passes)
    given = [*scenarios, stored, half, ordinary, again]
    turned = {name for scenario in given for name, _ in ways(scenario)}
    assert turned == set(KNOBS)
    for name, knob in KNOBS.items():
        for scenario in scenarios:
            found = knob.options(scenario)
            assert found, name
            assert isinstance(found, str) or all(
                change.words and change.values for change in found
            ), name


def test_a_change_of_one_of_several_groups(scenario_of_groups):
    faster = changed(scenario_of_groups, {"cluster.groups[1].gpus_per_node": 2})
    assert [group.gpus_per_node for group in faster.cluster.groups] == [None, 2]


def test_what_makes_no_scenario_is_refused_by_its_path(tiny):
    with pytest.raises(
        DpsimError, match=r"^workload.batch_per_gpu: must be at least 1, but got 0$"
    ):
        changed(tiny(), {"workload.batch_per_gpu": 0})
    with pytest.raises(DpsimError, match="is not possible"):
        changed(tiny(aggregation="sharded"), {"strategy.sync": {"kind": "ssp"}})


@pytest.fixture
def scenario_of_groups():
    from dpsim import Scenario

    content = {
        "name": "two kinds",
        "cluster": {"groups": [{"node": "dgx1-v100"}, {"node": "dgx1-p100"}]},
        "workload": {"model": "alexnet", "batch_per_gpu": 8},
    }
    return Scenario.model_validate(content)


def test_all_groups_are_changed(scenario_of_groups):
    (change,) = KNOBS["gpu-speed"].options(scenario_of_groups)
    faster = changed(scenario_of_groups, change.values)
    for before, after in zip(scenario_of_groups.cluster.parts, faster.cluster.parts, strict=True):
        assert after.accelerator.peak["fp32"].value == 2 * before.accelerator.peak["fp32"].value
        assert after.accelerator.memory == before.accelerator.memory
    (change,) = KNOBS["network-bandwidth"].options(scenario_of_groups)
    assert [
        group.nic.bandwidth for group in changed(scenario_of_groups, change.values).cluster.groups
    ] == [2 * group.node.nics.link.bandwidth for group in scenario_of_groups.cluster.groups]


FABRICS_OF_THE_SCENARIO = shape_of(NetworkConfig).kinds()


@pytest.mark.parametrize("fabric", FABRICS_OF_THE_SCENARIO)
def test_knobs_of_links_turn_every_rate_and_latency_that_a_fabric_has_itself(fabric):
    """A field of a new fabric that it does not name stays as it is, without a word."""
    model = FABRICS_OF_THE_SCENARIO[fabric]
    fields = model.model_json_schema()["properties"]
    # An edge's own rates and latencies are its own matter.
    quantities = {
        name: json.dumps(field) for name, field in fields.items() if name not in ("nic", "edges")
    }
    for dimension, own in ((RATE, model.own_rates), (TIME, model.own_latencies)):
        output = f"{dimension.name} with its unit"
        assert {name for name, field in quantities.items() if output in field} == set(own)


def test_links_of_a_dragonfly_are_changed_and_those_of_a_file_refused():
    network = "cluster.network={fabric: dragonfly, global_rate: 10 GB/s, global_latency: 2 us}"
    scenario = load_scenario(SCENARIOS / "quickstart.yaml", [network])
    (change,) = KNOBS["network-bandwidth"].options(scenario)
    faster = changed(scenario, change.values).cluster.network
    assert (faster.local_rate, faster.global_rate) == (None, 20e9)
    (change,) = KNOBS["latency"].options(scenario)
    sooner = changed(scenario, change.values).cluster.network
    assert (sooner.global_latency, sooner.switch_latency) == (1e-6, 0.25e-6)

    in_file = load_scenario(
        SCENARIOS / "quickstart.yaml", ["cluster.network={fabric: custom, graphml: net.graphml}"]
    )
    for knob, what in (("network-bandwidth", "rates"), ("latency", "latencies")):
        assert KNOBS[knob].options(in_file) == f"the {what} of the links stand in a GraphML file"
