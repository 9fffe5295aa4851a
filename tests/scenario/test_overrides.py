from __future__ import annotations

import pytest
from stand_in import GOOD, Backup, Bsp, Buckets, Network, Scenario, Sequential, Ssp

from dpsim.base.errors import ScenarioError
from dpsim.scenario import validate
from dpsim.scenario.document import Document
from dpsim.scenario.overrides import Override, apply_overrides
from dpsim.scenario.yaml_text import from_text

MINIMAL = "name: a\nworkload: {model: m}\n"


def _load(*overrides: str, text: str = GOOD) -> Scenario:
    return validate(apply_overrides(from_text(text, "f.yaml"), overrides, Scenario), Scenario)


def _error(*overrides: str, text: str = GOOD) -> str:
    with pytest.raises(ScenarioError) as caught:
        _load(*overrides, text=text)
    return str(caught.value)


def test_values_are_replaced_and_the_last_one_wins() -> None:
    scenario = _load(
        "cluster.nodes=8", "name=some words", "cluster.nodes=16", "cluster.network.bandwidth=1 GB/s"
    )
    assert (scenario.cluster.nodes, scenario.name, scenario.cluster.network.bandwidth) == (
        16,
        "some words",
        1e9,
    )


def test_a_value_may_be_a_flow_collection_and_hold_equals_signs() -> None:
    assert _load("cluster.node={gpus: 4}").cluster.node.gpus == 4
    assert _load("name=a=b").name == "a=b"


@pytest.mark.parametrize("path", ["disturbance.faults[0].at", "disturbance.faults.0.at"])
def test_a_path_may_hold_an_index(path: str) -> None:
    fault = _load(f"{path}=7 s").disturbance.faults[0]
    assert (fault.at, fault.link) == (7.0, "nic0")


def test_the_document_itself_stays_as_it_was() -> None:
    document = from_text(GOOD, "f.yaml")
    apply_overrides(document, ["cluster.nodes=8", "strategy.sync.kind=bsp"], Scenario)
    assert document.plain() == from_text(GOOD, "f.yaml").plain()


def test_setting_a_kind_drops_what_the_new_kind_does_not_know_and_keeps_the_rest() -> None:
    assert _load("strategy.sync.kind=bsp").strategy.sync == Bsp()
    assert _load("strategy.sync.kind=backup").strategy.sync == Backup(timeout="5 ms")
    assert _load("strategy.sync.kind=ssp").strategy.sync == Ssp(staleness=2, timeout="5 ms")
    assert _load("strategy.overlap.kind=sequential").strategy.overlap == Sequential()


@pytest.mark.parametrize("order", [1, -1])
def test_a_kind_and_its_fields_may_be_set_in_either_order(order: int) -> None:
    assert _load(
        *["strategy.sync.kind=backup", "strategy.sync.extra=2"][::order]
    ).strategy.sync == Backup(extra=2, timeout="5 ms")


def test_a_kind_does_not_drop_what_another_override_sets() -> None:
    assert _error("strategy.sync.staleness=4", "strategy.sync.kind=bsp") == (
        "--set strategy.sync.staleness=4: strategy.sync.staleness: is not a known key of this "
        "kind (it belongs to 'ssp')"
    )


def test_a_mapping_that_the_file_lacks_is_made_from_its_default() -> None:
    assert _load("cluster.network.oversubscription=2", text=MINIMAL).cluster.network == Network(
        nic="100GbE", oversubscription=2
    )
    assert _load("strategy.overlap.first_bucket=1 MB", text=MINIMAL).strategy.overlap == Buckets(
        bucket_size="auto", first_bucket="1 MB"
    )
    assert _load("strategy.overlap.kind=sequential", text=MINIMAL).strategy.overlap == Sequential()
    assert _load(
        "strategy.sync.kind=ssp", "strategy.sync.staleness=9", text=MINIMAL
    ).strategy.sync == Ssp(staleness=9)
    assert _load("disturbance.slow.gpu0=2.0", text=MINIMAL).disturbance.slow == {"gpu0": 2.0}
    assert _load("cluster.nodes=2", text=MINIMAL + "cluster:\n").cluster.nodes == 2


@pytest.mark.parametrize(
    ("override", "message"),
    [
        (
            "strategy.sync.kind=sspp",
            "strategy.sync.kind: must be one of bsp, backup, ssp, but got 'sspp' (did you mean "
            "'ssp'?)",
        ),
        ("cluster.nodes=0", "cluster.nodes: must be at least 1, but got 0"),
        ("run.warmup=10", "run: warmup must be less than steps, but got 10 of 10"),
        ("cluster.nodes=", "cluster.nodes: must be an integer, but got nothing"),
        (
            "strategy.sync.stalenes=1",
            "strategy.sync.stalenes: is not a known key (did you mean 'staleness'?)",
        ),
        ("clutser.nodes=1", "clutser: is not a known key (did you mean 'cluster'?)"),
        ("strategy.snyc.kind=ssp", "strategy.snyc: is not a known key (did you mean 'sync'?)"),
        ("cluster.nodes.x=1", "cluster.nodes: must be a mapping to have 'x', but got 4"),
        (
            "disturbance.faults[1].at=1 s",
            "disturbance.faults: must be followed by an index below 1, but got '1'",
        ),
        (
            "disturbance.faults.x.at=1 s",
            "disturbance.faults: must be followed by an index below 1, but got 'x'",
        ),
        (
            "disturbance.faults[0].at=-1 s",
            "disturbance.faults[0].at: must be at least 0, but got '-1 s'",
        ),
        (
            "cluster.network={bandwidth: 25 Gb}",
            "cluster.network.bandwidth: must be a data rate with its unit, such as '25 Gbit/s', "
            "but got '25 Gb', which is an amount of data",
        ),
        ("cluster.node={memory: 1 GB}", "cluster.node.gpus: is missing"),
        ("cluster.nodes", "must be key=value, such as cluster.nodes=8"),
        ("=8", "must be key=value, such as cluster.nodes=8"),
        ("a..b=8", "must be key=value, such as cluster.nodes=8"),
        ("name=[a", "must be YAML, but expected ',' or ']', but got '<stream end>'"),
        ("name=*a", "must refer to an anchor above, but got '*a'"),
        ("cluster={nodes: 1, nodes: 2}", "nodes: is given twice"),
    ],
)
def test_each_problem_names_its_option(override: str, message: str) -> None:
    assert _error(override) == f"--set {override}: {message}"


def test_problems_in_the_file_come_before_those_of_options() -> None:
    text = GOOD.replace("steps: 10", "steps: 0")
    assert _error("cluster.nodes=0", text=text).splitlines() == [
        "f.yaml:15:14: run.steps: must be at least 1, but got 0",
        "--set cluster.nodes=0: cluster.nodes: must be at least 1, but got 0",
    ]


def test_every_override_that_cannot_be_applied_is_shown() -> None:
    assert _error("a", "clutser.nodes=1").splitlines() == [
        "--set a: must be key=value, such as cluster.nodes=8",
        "--set clutser.nodes=1: clutser: is not a known key (did you mean 'cluster'?)",
    ]


def test_a_sweep_sets_plain_values_on_plain_documents() -> None:
    document = Document.of(
        {
            "name": "a",
            "workload": {"model": "m"},
            "strategy": {"sync": {"kind": "ssp", "staleness": 1}},
        },
        "sweep",
    )
    points = [
        apply_overrides(
            document,
            [
                Override.of("strategy.sync.kind", kind, "point"),
                Override.of("cluster.nodes", 2, "point"),
            ],
            Scenario,
        )
        for kind in ("bsp", "ssp")
    ]
    assert [validate(point, Scenario).strategy.sync for point in points] == [
        Bsp(),
        Ssp(staleness=1),
    ]
