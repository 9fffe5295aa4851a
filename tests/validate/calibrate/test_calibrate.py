"""Calibration from records.

Known values are recovered, rows that were fitted on do not count, and missing ones are reported.
"""

import json
from pathlib import Path

import numpy as np
import pytest

from dpsim.base.errors import DpsimError
from dpsim.commands.validate.calibrate import calibrate
from dpsim.hardware.calibration import Transport, load_profile
from dpsim.topology import TestbedConfig
from validate.calibrate.cases import CollectiveCase, case_of, predicted_s
from validate.calibrate.fit import MOST_PREDICTIONS, fit
from validate.calibrate.messages import Messages, predicted_message_s
from validate.calibrate.plan import full_plan, own_plan
from validate.calibrate.profile import fit_collectives, with_messages
from validate.compare.ranking import choices, within
from validate.ranks.testbed import parse_testbed
from validate.records import RunRecord, RunRecords, load_run_records, save_run_records

KIB = 1024
RECORDED = Path(__file__).parents[3] / "validate" / "recorded"
TRUTH = {
    "latency": 80e-6,
    "overhead": 12e-6,
    "dispatch": 10e-6,
    "entry": 150e-6,
    "per_byte": 1e-10,
    "gamma": 2e-10,
    "header": 300.0,
    "window": 120e3,
    "buffer": 48e3,
    "stall": 0.003,
    "contention": 5e-12,
    "efficiency": 0.93,
}
KNOWN = {"burst": 16384 / 6.25e6, "cores": 2, "queue": 16384.0}


def cases(
    *hosts,
    sizes=(4 * KIB, 64 * KIB, 256 * KIB, 1024 * KIB),
    algorithms=("ring", "butterfly", "gloo", "tree"),
):
    testbeds = [
        TestbedConfig.model_validate({"hosts": count, "rate": "100 Mbit/s"}) for count in hosts
    ]
    return [
        CollectiveCase(testbed=testbed, algorithm=name, bytes=size)
        for testbed in testbeds
        for name in algorithms
        for size in sizes
    ]


@pytest.fixture(scope="module")
def records():
    """Records of a transport that is known, with a little noise."""
    transport, noise = Transport.model_validate({**TRUTH, **KNOWN}), np.random.default_rng(0)
    return [
        case.record([predicted_s(case, transport) * noise.uniform(0.99, 1.01) for _ in range(3)])
        for case in cases(2, 3)
    ]


@pytest.fixture(scope="module")
def calibrated(records):
    return fit_collectives(records, "truth", every=2)


def test_what_made_the_measurements_is_found_again(records):
    known = {
        **KNOWN,
        **{
            name: TRUTH[name]
            for name in ("window", "buffer", "header", "stall", "contention", "per_byte", "gamma")
        },
    }
    found = fit(
        [case_of(record) for record in records[::2]],
        [record.median_s for record in records[::2]],
        known,
    )
    assert found.parameters["efficiency"].value == pytest.approx(TRUTH["efficiency"], rel=0.01)
    assert found.parameters["entry"].value == pytest.approx(TRUTH["entry"], rel=0.5)
    low, high = found.parameters["efficiency"].low, found.parameters["efficiency"].high
    assert low < found.parameters["efficiency"].value < high
    assert found.parameters["efficiency"].standard_error < 0.01


def test_bytes_under_way_are_tried_and_found_again():
    tried = ("window", "buffer")
    truth = Transport.model_validate({**TRUTH, **KNOWN})
    known = {
        **KNOWN,
        **{name: value for name, value in TRUTH.items() if name not in (*tried, "header")},
    }
    some = cases(4, sizes=(64 * KIB, 256 * KIB), algorithms=("tree", "all-to-all"))
    counts = []
    found = fit(some, [predicted_s(case, truth) for case in some], known, done=counts.append)
    assert {name: found.parameters[name].value for name in (*tried, "header")} == {
        name: pytest.approx(TRUTH[name], rel=1e-3) for name in (*tried, "header")
    }
    assert found.parameters["window"].low <= TRUTH["window"] <= found.parameters["window"].high
    assert counts == list(range(1, len(counts) + 1))
    assert len(counts) <= MOST_PREDICTIONS


def test_the_residuals_are_of_what_was_held_out(calibrated):
    profile, reported = calibrated
    assert profile.residuals.counted_on == "held-out rows"
    assert (
        profile.residuals.n == sum(not record.fitted for record in reported) == len(reported) // 2
    )
    assert profile.residuals.mean_ape < 0.05
    assert profile.residuals_by["fitted on"].counted_on == "fitted rows"
    parts = [
        profile.residuals_by[f"held out, {part}"].n for part in ("256 KiB and more", "smaller")
    ]
    assert sum(parts) == profile.residuals.n


def test_a_profile_predicts_the_records_again(calibrated):
    profile, reported = calibrated
    assert [predicted_s(case_of(record), profile.transport()) for record in reported] == [
        record.predicted_s for record in reported
    ]


def test_the_command_writes_a_profile_that_a_scenario_can_use(
    dpsim, calibrated, records, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    save_run_records(Path("runs.json.gz"), RunRecords(runs=tuple(records)))
    monkeypatch.setattr(
        "validate.calibrate.profile.fit", lambda *given, **options: _fit_of(calibrated[0])
    )
    options = "runs.json.gz -o profile.json --records records.json --every 2 --json"
    code, out, _ = dpsim("validate", "calibrate", *options.split())
    assert code == 0
    printed = json.loads(out)
    assert printed["schema_version"] == 1
    assert printed["profile"]["runs"] == {"runs.json.gz": len(records)}
    assert printed["choices"]["settings"] > 0
    assert load_profile("profile.json").transport() == calibrated[0].transport()
    assert (
        sum(record.fitted for record in load_run_records("records.json").runs) == len(records) // 2
    )


def _fit_of(profile):
    from validate.calibrate.fit import Fit

    return Fit(profile.parameters, profile.transport())


def test_too_few_runs_are_reported(records):
    with pytest.raises(
        DpsimError, match="runs must have at least 30 collectives to fit on one of 3, but have 5"
    ):
        fit_collectives(records[:5], "few")


def test_a_transport_that_says_too_little_predicts_nothing():
    with pytest.raises(
        DpsimError, match="must be predicted from a transport with processors and limiters"
    ):
        predicted_s(cases(2)[0], Transport(latency=1e-4))


def record(algorithm, measured, reported):
    return RunRecord(
        kind="collective",
        name=algorithm,
        setting="a",
        case={"algorithm": algorithm},
        measured_s=measured,
        predicted_s=reported,
    )


def test_the_choice_is_judged_by_what_it_costs():
    (choice,) = choices(
        [record("ring", (2.0,), 1.0), record("tree", (1.5,), 1.1), record("swing", (9.0,), 9.0)]
    )
    assert (choice.predicted, choice.measured, choice.tried) == ("ring", "tree", 3)
    assert choice.regret == pytest.approx(1 / 3)
    assert within([choice], 0.05) == 0
    assert within([choice], 0.4) == 1


def test_algorithms_that_send_the_same_messages_are_one_choice():
    (choice,) = choices(
        [
            record("ring", (2.0, 2.0), 1.0),
            record("butterfly", (1.0, 1.0), 1.0),
            record("tree", (1.6,), 1.5),
        ]
    )
    assert choice.predicted == choice.measured == "ring = butterfly"
    assert choice.regret == 0


@pytest.mark.parametrize(
    ("text", "hosts", "rate"),
    [
        ("hosts=3,rate=50 Mbit/s", 3, 6.25e6),
        ("rate=1 Gbit/s", 4, 1.25e8),
        ("hosts=2, mtu=1500", 2, 1.25e7),
    ],
)
def test_a_testbed_in_a_word(text, hosts, rate):
    testbed = parse_testbed(text)
    assert (testbed.hosts, testbed.rates[0]) == (hosts, rate)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("four", "--testbed must be a YAML file, or hosts=..., rate=..., mtu=..., but got 'four'"),
        ("hosts=4,speed=5", "but got 'speed=5'"),
        ("hosts=0", "--testbed: hosts: must be at least 1, but got 0"),
        ("rate=5", "must be a data rate with its unit"),
    ],
)
def test_an_invalid_testbed_is_reported(text, problem):
    with pytest.raises(DpsimError) as caught:
        parse_testbed(text)
    assert problem in str(caught.value)


def test_messages_add_the_duplex_factor(calibrated):
    profile, _ = calibrated
    half = profile.transport().model_copy(update={"duplex": 0.5})
    two = TestbedConfig.model_validate({"hosts": 2, "rate": "100 Mbit/s"})
    kinds = [(size * KIB, both) for size in (256, 1024) for both in (False, True)]
    messages = [
        Messages(two, size, both, (predicted_message_s(Messages(two, size, both, (1.0,)), half),))
        for size, both in kinds
    ]
    found = with_messages(profile, messages)
    assert found.parameters["duplex"].value == pytest.approx(0.5, abs=0.02)
    assert found.residuals_by["messages both ways at once, 256 KiB and more"].worst_ape < 0.05
    assert found.residuals == profile.residuals


def test_recorded_runs_say_themselves_where_they_ran(tmp_path, records):
    save_run_records(tmp_path / "runs.json", RunRecords(runs=tuple(records)))
    with pytest.raises(DpsimError, match="--testbed must be left out with RUNS"):
        calibrate([tmp_path / "runs.json"], testbed="hosts=2")
    with pytest.raises(DpsimError, match="files of runs, or --testbed to measure on"):
        calibrate()


def test_the_shipped_profile_predicts_the_recorded_runs_as_well_as_it_says():
    """A part of them, which takes seconds; all of them: dpsim validate compare (see the README)."""
    recorded = load_run_records(RECORDED / "collectives.json.gz").runs
    profile = load_profile(RECORDED.parent / "profiles" / "testbed.json")
    some = [
        record for record in recorded if not record.fitted and case_of(record).testbed.hosts < 8
    ][::12]
    errors = {True: [], False: []}
    for record in some:
        case = case_of(record)
        error = predicted_s(case, profile.transport()) / record.median_s - 1
        errors[case.bytes >= 256 * KIB].append(abs(error))
    assert len(errors[True]) > 10
    assert np.mean(errors[True]) < 0.03
    assert np.mean(errors[False]) < 0.15


def test_plans_are_as_wide_as_they_should_be():
    plan = full_plan()
    assert {case.bytes for case in plan} >= {4 * KIB, 16 * KIB * KIB}
    assert {case.testbed.hosts for case in plan} >= {2, 4, 8}
    assert len({case.testbed.rates[0] for case in plan}) >= 4
    assert any(case.testbed.racks for case in plan)
    assert any(len(set(case.testbed.rates)) > 1 for case in plan)
    own = own_plan(TestbedConfig())
    assert 20 <= len(own) <= 60, "enough to fit on a part, and soon measured"
    assert {case.testbed for case in own} == {TestbedConfig()}
    assert len(own_plan(parse_testbed("hosts=8,rate=50 Mbit/s"))) >= 30, "also where links are slow"
    with pytest.raises(
        DpsimError, match="testbed must have at least 2 hosts to calibrate, but has 1"
    ):
        own_plan(TestbedConfig(hosts=1))
