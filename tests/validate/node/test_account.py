"""What ranks measured, as the parts of a step."""

from pathlib import Path

import pytest

pytest.importorskip("torch")

from validate.emulate import Case
from validate.node.run import steps_of

pytestmark = pytest.mark.torch

SCENARIO = str(Path(__file__).parent / "small.yaml")


def test_ranks_that_are_slow_in_turn_wait_for_one_another():
    common = {"step_s": [5.0] * 4, "pauses_s": [0.0] * 4, "parts_s": {}, "carried": [[]] * 4}
    rows = [{"alone_s": single, **common} for single in ([1.0, 3.0], [3.0, 1.0])]
    found = steps_of(Case(SCENARIO).job(), rows)
    assert found.compute.T.tolist() == [[1, 3, 1, 3], [3, 1, 3, 1]]
    assert found.straggler_wait.T.tolist() == [[2, 0, 2, 0], [0, 2, 0, 2]]
    assert (found.exposed_comm == 2).all()
