"""Time to target in words."""

from dpsim import load_scenario
from dpsim.engine.to_target import time_to_target
from dpsim.report.text.tables import to_target_notes


def test_lines_say_time_steps_batch_and_learning_rate():
    found = time_to_target(load_scenario("scenarios/quickstart.yaml"), 0.25)
    time, batch, rate = to_target_notes(found)
    assert time.startswith(f"to target   {found.training.time_s / 3600:,.3g} h (")
    assert "to top-1 accuracy 0.75 on ImageNet: 46,400 steps, 74.2 epochs" in time
    assert batch.startswith(
        "batch       fine: a global batch of 2,048 needs 1.13 times the samples"
    )
    assert rate.startswith(
        "rate        linear rule: multiply the learning rate that is right at a batch of 200 by "
        "10.2"
    )


def test_missing_constants_are_reported_instead_of_numbers():
    large = load_scenario("scenarios/quickstart.yaml", ["cluster.nodes=160"])
    output, batch, _, note = to_target_notes(time_to_target(large, 0.25))
    assert output == "to target   the steps to top-1 accuracy 0.75 on ImageNet are not known"
    assert batch.startswith("batch       too large: a global batch of 81,920 may not converge")
    assert note.startswith(
        "note        steps to the target are not known with a global batch above"
    )
