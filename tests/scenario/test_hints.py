"""What an error says of a key or a kind that stands elsewhere, or that others call otherwise."""

from pathlib import Path

import pytest

from dpsim import ScenarioError, load_scenario

QUICKSTART = Path(__file__).parents[2] / "scenarios" / "quickstart.yaml"


@pytest.mark.parametrize(
    ("override", "meant"),
    [
        ("nic=25GbE", "cluster.network.nic"),
        ("bucket_size=25 MiB", "strategy.overlap.bucket_size"),
        ("cluster.nic=25GbE", "network.nic"),
        ("workload.batch=64", "batch_per_gpu"),
        ("strategy.aggregation.kind=fsdp", "sharded"),
        ("strategy.aggregation.kind=DDP", "allreduce"),
        ("strategy.sync.kind=diloco", "local-sgd"),
        ("strategy.compression.kind=fp16", "cast"),
    ],
)
def test_the_nearest_is_named(override, meant):
    with pytest.raises(ScenarioError, match=rf"\(did you mean '{meant}'\?\)$"):
        load_scenario(QUICKSTART, [override])


def test_a_value_without_its_source_has_no_key_of_its_own():
    link = "cluster.network.nic={rate: 25 GB, latency: 5 us}"
    with pytest.raises(ScenarioError, match=r"cluster\.network\.nic\.rate: must be a data rate"):
        load_scenario(QUICKSTART, [link])


def test_a_key_that_stands_in_many_places_is_not_guessed():
    with pytest.raises(ScenarioError, match=r"kind: is not a known key \(known: calibration, "):
        load_scenario(QUICKSTART, ["kind=ssp"])


def test_an_example_has_the_kind_that_was_meant():
    with pytest.raises(ScenarioError, match=r"such as {kind: sharded}, but got 'fsdp'"):
        load_scenario(QUICKSTART, ["strategy.aggregation=fsdp"])


def test_a_file_that_is_not_here_but_comes_with_dpsim_can_be_copied(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    copies = "; dpsim scenarios quickstart -o FILE copies dpsim's"
    for name in ("scenarios/quickstart.yaml", "quickstart"):
        with pytest.raises(ScenarioError, match=rf"there is no such file{copies}$"):
            load_scenario(name)
    with pytest.raises(ScenarioError, match=r"there is no such file$"):
        load_scenario("mine.yaml")
