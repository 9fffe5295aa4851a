"""Ranks that are killed and come back: what is recorded, beside what `goodput` foretells."""

import json
from importlib.util import find_spec
from pathlib import Path

import pytest
from again import measured_again

pytestmark = pytest.mark.torch

if find_spec("torch"):
    from validate.elastic import Job, Kill, Killed, compare, mean_restart, run, tally

ROOT = Path(__file__).parents[3]


def notes(*events):
    return [{"event": event, "at": at} for event, at in events]


def test_time_is_divided_by_what_a_checkpoint_holds():
    """Two steps of 1 s and a checkpoint of 0.5 s; the second period is cut off after 1.2 s."""
    rows = notes(
        ("begin", 10.0),
        ("step", 11.0),
        ("step", 12.0),
        ("saved", 12.5),
        ("step", 13.5),
        ("begin", 17.0),
        ("step", 18.0),
        ("step", 19.0),
        ("saved", 19.5),
        ("end", 19.5),
    )
    job = Job(ranks=2, steps=4, step_s=1, every=2, checkpoint_s=0.5, kills=(3.7,))
    found = tally(job, rows, [Kill(at=13.7, ended=13.9)])
    parts = (found.useful, found.checkpoints, found.lost, found.restarting)
    assert parts == pytest.approx((4, 1, 1.2, 3.3))
    assert sum(parts) == pytest.approx(found.seconds) == pytest.approx(9.5)
    (stop,) = found.stops
    assert (stop.computing_s, stop.detection_s) == pytest.approx((3.7, 0.2))
    reported = compare(found, restart_s=3.3)
    assert reported.predicted == pytest.approx(reported.measured)
    assert reported.recovery_error == pytest.approx(0, abs=1e-9)


def test_ranks_that_are_killed_come_back_and_lose_what_no_checkpoint_holds():
    """A small one, on a machine that may be busy: the restart is its own, the rest foretold."""
    job = Job(ranks=2, steps=10, every=5, checkpoint_s=0.1, kills=(0.9,))

    def check(found):
        reported = compare(found, mean_restart(found))
        assert reported.measured["lost"] < job.every * job.step_s + 0.5
        assert reported.recovery_error == pytest.approx(0, abs=0.3)
        assert reported.useful_error == pytest.approx(0, abs=0.15)

    measured_again(check, lambda: run(job))


@pytest.fixture(scope="module")
def recorded():
    content = json.loads((ROOT / "validate" / "recorded" / "elastic.json").read_text())
    return [Killed.model_validate(job) for job in content["jobs"]]


def test_recorded_recoveries_are_foretold_from_the_restarts_of_another_job(recorded):
    known = mean_restart(recorded[0])
    reported = [compare(found, known) for found in recorded[1:]]
    assert known == pytest.approx(2.37, abs=0.01)
    assert [each.recovery_error for each in reported] == pytest.approx(
        [-0.004, 0.026, 0.075], abs=1e-3
    )
    assert [each.useful_error for each in reported] == pytest.approx(
        [-0.001, -0.007, -0.014], abs=1e-3
    )
    pairs = [zip(each.recovery_predicted, each.recovery_measured, strict=True) for each in reported]
    single = [foretold / was - 1 for pair in pairs for foretold, was in pair]
    assert (min(single), max(single)) == pytest.approx((-0.20, 0.27), abs=0.01)
