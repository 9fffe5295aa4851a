"""A few collectives of real ranks beside what the shipped profile predicts.

Bounds are loose, for other things run beside them.
"""

from pathlib import Path

import pytest
from again import measured_again

from dpsim.hardware.calibration import load_profile
from validate.calibrate.cases import CollectiveCase, case_of, predicted_s
from validate.ranks.testbed import TestbedConfig

pytestmark = [pytest.mark.torch, pytest.mark.testbed]

PROFILE = Path(__file__).parents[3] / "validate" / "profiles" / "testbed.json"
KIB = 1024
LOOSE = 0.25


# Two hosts at this rate are also what a whole run is predicted for, in run/test_cli_run.py.
TWO = pytest.param({"hosts": 2, "rate": "200 Mbit/s"}, marks=pytest.mark.wide)


@pytest.mark.parametrize("testbed", [TWO, {"hosts": 4, "rate": "100 Mbit/s"}])
def test_real_collectives_take_about_as_long_as_is_predicted(testbed):
    from validate.calibrate.measurement import measure

    config = TestbedConfig.model_validate(testbed)
    algorithms = ("gloo", "ring", "butterfly", "tree")
    cases = [
        CollectiveCase(testbed=config, algorithm=name, bytes=256 * KIB, repetitions=3)
        for name in algorithms
    ]
    left, best = [*cases], {}
    transport = load_profile(PROFILE).transport()

    def measured():
        received = []
        records = list(measure(left, received.append))
        assert [case_of(record) for record in records] == left
        assert received == [number + 1 for number in range(len(left))]
        return records

    # Other work can only make a collective longer: what is off is measured again, more often, and
    # the shortest of all counts.
    def check(records):
        off = {}
        for record in records:
            name = record.name
            best[name] = min(*record.measured_s, best.get(name, float("inf")))
            off[name] = predicted_s(case_of(record), transport) / best[name] - 1
        left[:] = [
            case.model_copy(update={"repetitions": 20})
            for case in left
            if abs(off[case.name]) > LOOSE
        ]
        assert not left, off

    measured_again(check, measured)
