"""``dpsim goodput``: table and JSON, whose keys are those of docs/json.md."""

import json
import re
from pathlib import Path

import pytest
from json_docs import documented_keys

ROOT = Path(__file__).parents[2]
DISTURBED = str(ROOT / "scenarios" / "disturbed.yaml")


@pytest.fixture
def goodput(dpsim):
    """Runs the command; answers stdout."""

    def call(*args):
        code, out, _ = dpsim("goodput", DISTURBED, "--runs", "5", *args)
        assert code == 0
        return out

    return call


def test_the_keys_are_those_of_the_documentation(goodput):
    reported = json.loads(goodput("--json"))
    assert [*reported] == ["schema_version", "kind", *documented_keys("dpsim goodput FILE --json")]
    assert reported["kind"] == "goodput"


def test_it_takes_the_scenarios_own_crashes_and_days(goodput):
    reported = json.loads(goodput("--days", "54", "--json"))
    assert reported["workers"] == 512
    assert reported["seconds"] == 54 * 86_400
    assert reported["interruptions"] == pytest.approx(512 * 54 / 730, rel=0.2)


def test_the_text_says_what_is_left_and_how_often_to_save(goodput):
    out = goodput("--set", "disturbance.crashes.faults=llama3")
    assert "host maintenance" in out
    assert re.search(r"useful +9\d\.\d% of the time", out)
    assert "Daly" in out
    assert "Young" in out


def test_a_job_that_waits_for_repairs_gets_advice(goodput):
    waits = "disturbance.crashes={mtbf: 32 days, repair_time: 1 day, spares: 2}"
    assert (
        "to try      more spares than 2 (disturbance.crashes.spares), or elastic: true, which "
        "continues without them\n"
    ) in goodput("--set", waits)
    assert "to try" not in goodput("--set", waits.replace("spares: 2", "spares: 40"))


def test_a_short_job_is_told_why_the_long_run_is_worse(goodput):
    """In the long run a job without spares has 1 / (1 + repair / time between faults): half."""
    half = "disturbance.crashes={mtbf: 512 days, repair_time: 1 day, restart_time: 0 s}"
    assert re.search(
        r"long run    4\d\.\d% of the time by the closed form\n", goodput("--set", half)
    )
    months = half.replace("512 days", "10240 days").replace("1 day,", "20 days,")
    out = goodput("--set", months, "--days", "10", "--runs", "50")
    assert re.search(r"long run +4\d\.\d% .* a job of 10 days begins with nothing in repair", out)


def test_assumed_times_are_shown_in_readable_units(goodput):
    crashes = "disturbance.crashes={mtbf: 32 days, restart_time: 5 min}"
    assert "assumed     checkpoint_cost 60 s (fields of disturbance.crashes)" in goodput(
        "--set", crashes
    )
    output = goodput("--set", "disturbance.crashes={}")
    assert (
        "assumed     mtbf of each worker 50000 h, checkpoint_cost 60 s, restart_time 300 s"
        in output
    )
    assert "e+0" not in output
