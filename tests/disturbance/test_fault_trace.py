"""A log of faults is read by kind, and relapses are separated from single faults."""

from dataclasses import replace

import numpy as np
import pytest
from packaged_columns import packaged_table

from dpsim.base.errors import DpsimError
from dpsim.disturbance import CrashesConfig, read_trace, together
from dpsim.disturbance.fault_trace import relapse_chance
from dpsim.disturbance.faults import known_faults
from dpsim.studies.goodput import Machine, draw_faults, simulate_job

DAY = 86_400.0
HEADER = "node,start_day,end_day,kind\n"
SERVERS, DAYS = 267, 349


@pytest.fixture(scope="module")
def published(tmp_path_factory):
    """The faults of GPU servers that the table of `faults.yaml` was made of."""
    rows = packaged_table("failure_events.csv", ("node", "start_day", "end_day", "kind"))
    columns = [rows.text(name) for name in ("node", "start_day", "end_day", "kind")]
    path = tmp_path_factory.mktemp("trace") / "faults.csv"
    path.write_text(HEADER + "".join(",".join(row) + "\n" for row in zip(*columns, strict=True)))
    return str(path)


def written(folder, *lines):
    path = folder / "faults.csv"
    path.write_text(HEADER + "\n".join(lines) + "\n")
    return str(path)


def crashes(**faults):
    return CrashesConfig.model_validate({"faults": faults})


def test_kinds_are_counted_and_their_repairs_averaged(tmp_path):
    fans = [f"{n},{n},{n + 1 + n % 2},fan" for n in range(10)]
    disks = [f"{n},,{n + 5},disk" for n in range(5)]
    found = crashes(trace=written(tmp_path, *fans, *disks), servers=30, days=100).causes(240, 8)
    assert [cause.name for cause in found] == ["fan", "disk"]
    assert [cause.rate * 100 * DAY for cause in found] == pytest.approx([10, 5], rel=1e-5)
    assert [cause.repair_time for cause in found] == pytest.approx([1.5 * DAY, 0])


def test_faults_that_fall_as_by_chance_have_no_relapse_and_uneven_ones_have():
    generator = np.random.default_rng(0)
    even = generator.poisson(1.5, 100_000)
    assert relapse_chance(even.astype(float)) < 0.01
    first = generator.poisson(0.8, 100_000)
    episodes = first + np.array([generator.negative_binomial(n, 0.6) if n else 0 for n in first])
    assert relapse_chance(episodes.astype(float)) == pytest.approx(0.4, abs=0.01)


def test_relapses_come_soon_after_the_return(tmp_path):
    lines = [f"a,{20 * n},{20 * n + 1},fan" for n in range(5)]  # nineteen days later
    lines += [f"a,{20 * n + 1.5},{20 * n + 2},fan" for n in range(5)]  # half a day later
    chance, after = read_trace(written(tmp_path, *lines), servers=10).relapse()
    assert 0.7 < chance < 0.9
    assert 0.5 < after < 19


def test_servers_that_fail_within_a_minute_are_one_failure(tmp_path):
    apart = [f"{n},{n},{n + 1},fan" for n in range(10)]
    at_once = [f"{n + 20},0.0005,1,fan" for n in range(2)]
    undated = [f"{n + 30},,3,fan" for n in range(4)]
    found = crashes(trace=written(tmp_path, *apart, *at_once, *undated)).causes(80, 8)
    assert found[0].together == pytest.approx(12 / 10)


def test_faults_per_group_match_the_published_servers(published):
    faults = read_trace(published, SERVERS, DAYS).faults
    by_name = {fault.name: fault.together for fault in known_faults("gpu-servers")}
    for name, kind in (("GPU", "GPU"), ("failed stress test", "Stress Test Failure")):
        own = [fault for fault in faults if fault.kind == kind]
        assert by_name[name] == pytest.approx(together(own), abs=1e-3)
    # Of so few in so many days two in a minute are no coincidence.
    assert together(faults) == pytest.approx(392 / 356)
    generator = np.random.default_rng(0)
    chance = [replace(fault, start=generator.uniform(0, DAYS)) for fault in faults]
    assert together(chance) < 1.01


def test_the_table_is_what_the_trace_says(published):
    reported = crashes(trace=published, servers=SERVERS, days=DAYS)
    for cause in (*reported.causes(800, 8), *crashes_of("gpu-servers").causes(800, 8)):
        assert cause.relapse == pytest.approx(0.468, abs=1e-3)
        assert cause.relapse_time == pytest.approx(125 * 3600, rel=0.01)
    rates = [
        sum(cause.rate for cause in config.causes(800, 8))
        for config in (reported, crashes_of("gpu-servers"))
    ]
    assert rates[0] == pytest.approx(rates[1], rel=0.01)


def crashes_of(name):
    return CrashesConfig(faults=name)


@pytest.mark.parametrize(
    "days", [20, *(pytest.param(n, marks=pytest.mark.wide) for n in (60, 174))]
)
def test_faults_of_shorter_times_are_as_unevenly_spread_as_they_were(published, days):
    """Fitted only to whole times. One server's faults: their variance over their mean."""
    trace = read_trace(published, SERVERS, DAYS)
    windows = int(trace.days // days)
    counts = np.zeros((SERVERS, windows))
    for server, faults in enumerate(trace.by_server().values()):
        for fault in faults:
            if fault.start < windows * days:
                counts[server, int(fault.start // days)] += 1
    measured = counts.var(axis=0, ddof=1).sum() / counts.mean(axis=0).sum()

    # Of eight servers that fail apart from one another, which are as uneven as one.
    apart = [
        {**fault.model_dump(mode="json"), "together": 1} for fault in known_faults("gpu-servers")
    ]
    drawn = interruptions(CrashesConfig.model_validate({"faults": apart}), days, 1500)
    assert np.mean(drawn) == pytest.approx(8 * 402 / SERVERS * days / DAYS, rel=0.08)
    assert np.var(drawn) / np.mean(drawn) == pytest.approx(measured, rel=0.2)


def interruptions(config, days, runs):
    """How often each run of a job on eight nodes is interrupted; nobody waits for a repair."""
    causes, plan = config.causes(64, 8), config.checkpoints(DAY)
    machine = Machine(64, causes, plan, 0.0, 0.0, spares=10_000, elastic=False)
    generator = np.random.default_rng(0)
    drawn = (draw_faults(machine, days * DAY, generator) for _ in range(runs))
    return [len(simulate_job(machine, days * DAY, faults).stops) for faults in drawn]


def test_relapses_keep_the_rate_and_spread_months_apart():
    fault = {"per": "node", "mtbf": "2000 h", "repair_time": "5 h"}
    single, episodes = (
        interruptions(CrashesConfig.model_validate({"faults": [fault | more]}), 30, 1000)
        for more in ({}, {"relapse": 0.5})
    )
    assert np.mean(single) == pytest.approx(8 * 30 * 24 / 2000, rel=0.05)
    assert np.mean(episodes) == pytest.approx(np.mean(single), rel=0.06)
    # Episodes of any length in all: (1 + p) / (1 - p) is 3, a little less within a month.
    assert 2 < np.var(episodes) / np.var(single) < 3.2


@pytest.mark.parametrize(
    ("lines", "fields", "rule"),
    [
        (["a,1,2,fan"] * 9, {}, "must have at least 10 faults, but got 9"),
        (["a,1,2,fan"] * 10 + ["a,,,fan"], {}, ":12: must have start_day or end_day"),
        (["a,1,2,fan"] * 10 + ["a,x,2,fan"], {}, "start_day: must be a day from 0 on, but got 'x'"),
        (["a,3,2,fan"] * 10, {}, "end_day must be at least start_day, but got 2"),
        (["a,1,2,fan"] * 5 + ["b,1,2,fan"] * 5, {"servers": 1}, "servers must be at least 2"),
        (["a,1,2,fan"] * 10, {"days": 1}, "days must be at least 2, its last, but got 1"),
    ],
)
def test_a_trace_that_cannot_be_used_says_why(tmp_path, lines, fields, rule):
    with pytest.raises(DpsimError, match=rule):
        crashes(trace=written(tmp_path, *lines), **fields).causes(8, 8)


def test_a_file_without_the_columns_is_refused(tmp_path):
    path = tmp_path / "other.csv"
    path.write_text("host,day\na,1\n")
    with pytest.raises(DpsimError, match="must have the columns node, start_day and end_day"):
        read_trace(str(path))


def test_tables_have_relapses_only_where_they_were_seen():
    assert {fault.relapse for fault in known_faults("llama3")} == {0.0}
