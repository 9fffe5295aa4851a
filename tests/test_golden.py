"""Every scenario in ``scenarios/`` still gives the result that is committed in ``tests/golden/``."""

import json
from pathlib import Path

import pytest
from leaves import leaves

from dpsim import load_scenario, simulate

ROOT = Path(__file__).parents[1]
SCENARIOS = sorted((ROOT / "scenarios").rglob("*.yaml"))
GOLDEN = ROOT / "tests" / "golden"
# Predictions of seconds: 110 steps of 32 buckets, and 128 workers with collectives of each layer.
WIDE = ("diloco.yaml", "llama2-70b-hsdp.yaml")


def golden_file(scenario: Path) -> Path:
    return GOLDEN / scenario.relative_to(ROOT / "scenarios").with_suffix(".json")


def answer(scenario: Path) -> dict:
    result = simulate(load_scenario(scenario)).to_json()
    del result["provenance"]
    return result


@pytest.mark.parametrize(
    "scenario",
    [
        pytest.param(path, id=path.stem, marks=[pytest.mark.wide] if path.name in WIDE else [])
        for path in SCENARIOS
    ],
)
def test_the_result_is_the_committed_one(scenario):
    assert golden_file(scenario).exists(), (
        "no golden output yet: run 'make golden', and look at what it wrote"
    )
    expected = dict(leaves(json.loads(golden_file(scenario).read_text())))
    got = dict(leaves(answer(scenario)))
    assert got.keys() == expected.keys(), (
        "the shape changed: run 'make golden', and look at the difference"
    )
    for key, value in expected.items():
        assert got[key] == (
            pytest.approx(value, rel=1e-9, abs=1e-12) if isinstance(value, float) else value
        ), key


def test_no_answer_takes_more_than_there_is():
    """Shares of the GPUs' peak, where it is known, and of the busiest link's rate."""
    for path in GOLDEN.rglob("*.json"):
        found = json.loads(path.read_text())
        shares = (found["mfu"], found["hfu"], found["busiest_link"]["utilisation"])
        assert all(share is None or 0 <= share <= 1 for share in shares), path


def test_every_golden_output_has_its_scenario():
    assert sorted(GOLDEN.rglob("*.json")) == sorted(golden_file(scenario) for scenario in SCENARIOS)


if __name__ == "__main__":
    for each in SCENARIOS:
        golden_file(each).parent.mkdir(parents=True, exist_ok=True)
        golden_file(each).write_text(json.dumps(answer(each), indent=2) + "\n")
