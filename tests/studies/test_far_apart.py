"""Between sites: which period and which fragments keep the loss of throughput under 5 %."""

from pathlib import Path

import pytest

from dpsim import load_scenario, simulate

FAR_APART = Path(__file__).parents[2] / "scenarios" / "far-apart.yaml"


def loss(every, fragments, overlap):
    outer = f"{{every: {every}, fragments: {fragments}, overlap: {overlap}}}"
    settings = [f"strategy.sync.outer={outer}"]
    return 1 - simulate(load_scenario(FAR_APART, settings)).scaling_efficiency


def test_in_ten_fragments_beside_twenty_steps_every_200_steps_are_enough():
    """The file's own choice, and half its period."""
    assert loss(200, 10, 20) < 0.05 < loss(100, 10, 20)


@pytest.mark.parametrize("overlap", [0, 20])
def test_a_model_that_is_sent_at_once_costs_a_fifth_even_at_twice_the_period(overlap):
    assert loss(400, 1, overlap) > 0.15
