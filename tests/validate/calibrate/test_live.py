"""A few collectives of real ranks beside what the shipped profile predicts.

Bounds are loose, for other things run beside them.
"""

from pathlib import Path

import pytest

from dpsim.hardware.calibration import load_profile
from validate.calibrate import CollectiveCase, case_of, with_predictions
from validate.ranks.testbed import TestbedConfig

pytestmark = [pytest.mark.torch, pytest.mark.testbed]

PROFILE = Path(__file__).parents[3] / "validate" / "profiles" / "testbed.json"
KIB = 1024
LOOSE = 0.25


# Two hosts at this rate are also what a whole run is predicted for, in run/test_cli_run.py.
TWO = pytest.param({"hosts": 2, "rate": "200 Mbit/s"}, marks=pytest.mark.wide)


@pytest.mark.parametrize("testbed", [TWO, {"hosts": 4, "rate": "100 Mbit/s"}])
def test_real_collectives_take_about_as_long_as_is_predicted(testbed):
    pytest.importorskip("torch")
    from validate.calibrate.measurement import measure

    config = TestbedConfig.model_validate(testbed)
    algorithms = ("gloo", "ring", "butterfly", "tree")
    cases = [
        CollectiveCase(testbed=config, algorithm=name, bytes=256 * KIB, repetitions=3)
        for name in algorithms
    ]
    heard = []
    measured = list(measure(cases, heard.append))
    assert [case_of(record) for record in measured] == cases
    assert heard == [1, 2, 3, 4]
    first = {record.name: record for record in with_predictions(measured, load_profile(PROFILE))}
    # What other work may have held up is measured once more.
    off = [case for case in cases if abs(first[case.name].error) > LOOSE]
    again = with_predictions(list(measure(off, heard.append)), load_profile(PROFILE)) if off else []
    for record in (first | {record.name: record for record in again}).values():
        assert record.error == pytest.approx(0, abs=LOOSE), record.name
