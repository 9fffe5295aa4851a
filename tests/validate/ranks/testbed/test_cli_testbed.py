"""``dpsim validate testbed``.

What it prints where, its exit codes, and what it says where there can be no testbed.
"""

import json
import os
import sys
from importlib import import_module
from pathlib import Path

import pytest
from json_docs import documented_keys

TWO_RACKS = Path(__file__).with_name("two-racks.yaml")


@pytest.fixture
def dpsim(dpsim):
    """Runs ``dpsim validate testbed``; answers exit code, stdout and stderr."""

    return lambda *args: dpsim("validate", "testbed", *args)


@pytest.fixture
def short_patterns(monkeypatch):
    """Shorter still: any measurement is reported."""
    monkeypatch.setattr(import_module("validate.ranks.testbed.check"), "_SECONDS", 0.02)


@pytest.mark.testbed
def test_without_a_command_it_measures_tcp(dpsim):
    code, out, err = dpsim("--hosts", 2, "--rate", "200 Mbit/s")
    assert (code, err) == (0, "")
    assert out.startswith("TCP on 2 hosts; a stream's own bytes should get 99.27% of the rate")
    assert [line.split()[0] for line in out.splitlines()[3:]] == ["flow", "exchange"]


@pytest.mark.testbed
def test_json_of_the_self_check_has_the_documented_keys(dpsim, tmp_path):
    file = tmp_path / "racks.yaml"
    file.write_text("{hosts: 2, racks: {racks: [[0], [1]], uplink: 50 Mbit/s}}")
    code, out, _ = dpsim("--topology", file, "--rates", "100 Mbit/s, 200 Mbit/s", "--json")
    answer = json.loads(out)
    assert code == 0
    assert list(answer) == ["schema_version", "kind", *documented_keys("dpsim validate testbed")]
    racks = {"racks": [[0], [1]], "uplink_Bps": 6.25e6}
    assert answer["testbed"] == {
        "hosts": 2,
        "rates_Bps": [12.5e6, 25e6],
        "mtu": 9000,
        "racks": racks,
    }
    assert [list(row) for row in answer["rows"]] == [
        ["pattern", "bytes", "nominal_s", "measured_s", "runs_s", "ratio"]
    ] * 5
    assert (answer["run"], answer["failed"]) == (None, None)


@pytest.mark.testbed
def test_a_file_may_have_a_rate_for_each_host(dpsim, tmp_path):
    file = tmp_path / "rates.yaml"
    file.write_text("{hosts: 2, rate: [10 Mbit/s, 20 Mbit/s]}")
    for options, rates in ([], [1.25e6, 2.5e6]), (["--rate", "40 Mbit/s"], [5e6, 5e6]):
        code, out, _ = dpsim("--topology", file, *options, "--json", "--", "true")
        assert code == 0
        assert json.loads(out)["testbed"]["rates_Bps"] == rates


@pytest.mark.testbed
def test_a_command_runs_on_every_host_and_its_output_says_whose_it_is(dpsim):
    code, out, err = dpsim(
        "--hosts", 3, "--", "sh", "-c", "echo $RANK of $WORLD_SIZE; echo $MASTER_ADDR >&2"
    )
    assert code == 0
    assert sorted(out.splitlines()) == ["[0] 0 of 3", "[1] 1 of 3", "[2] 2 of 3"]
    assert sorted(err.splitlines()) == ["[0] 10.77.0.1", "[1] 10.77.0.1", "[2] 10.77.0.1"]


@pytest.mark.testbed
def test_a_rank_that_fails_is_exit_code_1_and_the_rest_is_kept(dpsim):
    code = """
import os, time
from validate.ranks.launch import write_row
write_row({"x": 1})
if os.environ["RANK"] == "1": raise SystemExit(7)
time.sleep(60)
"""
    code, out, err = dpsim("--hosts", 2, "--json", "--", sys.executable, "-c", code)
    answer = json.loads(out)
    assert code == 1
    assert err.startswith("dpsim: rank 1 on host1 exited with code 7 after ")
    ended = {"rank": 1, "host": "host1", "exit_code": 7, "signal": None}
    assert ended.items() <= answer["failed"].items()
    keys = ["rank", "host", "exit_code", "signal", "stdout", "stderr", "records"]
    assert [list(rank) for rank in answer["run"]["ranks"]] == [keys] * 2
    assert answer["run"]["ranks"][1]["records"] == [{"x": 1}]


@pytest.mark.testbed
def test_a_command_that_takes_too_long_is_ended(dpsim):
    code, out, err = dpsim("--hosts", 2, "--timeout", "0.2 s", "--", "sleep", "60")
    assert (code, out) == (1, "")
    assert err.startswith("dpsim: rank 0 on host0 had not finished after 0.2 s")


BAD = {
    "two rates": (
        ["--rate", "1 Mbit/s", "--rates", "1 Mbit/s"],
        "--rate must not be given with --rates, but got both",
    ),
    "no unit": (
        ["--rates", "10 Mbit/s,5"],
        "--rates: must be a data rate with its unit, such as '25 Gbit/s', but got '5'",
    ),
    "too slow": (
        ["--rate", "1 kbit/s"],
        "testbed: rate: must be from 1 Mbit/s to 10 Gbit/s, but got 1 kbit/s",
    ),
    "no hosts": (["--hosts", 0], "testbed: hosts: must be at least 1, but got 0"),
    "hosts against rates": (
        ["--hosts", 2, "--rates", "1 Mbit/s"],
        "rate must be one for all or one for each of 2 hosts, but got 1",
    ),
    "no time": (["--timeout", "0 s"], "--timeout: must be above 0, but got '0 s'"),
    "hosts against a file": (
        ["--topology", TWO_RACKS, "--hosts", 3],
        "racks must name each host from 0 to 2 once, but host 3",
    ),
    "no file": (["--topology", "no-such.yaml"], "no-such.yaml"),
}


@pytest.mark.parametrize("name", BAD)
def test_what_cannot_be_used_is_exit_code_2_and_says_why(name, dpsim):
    options, output = BAD[name]
    code, out, err = dpsim(*options)
    assert (code, out) == (2, "")
    assert output in err


def test_without_root_it_says_so_with_exit_code_1(dpsim, monkeypatch):
    monkeypatch.setattr(os, "geteuid", lambda: 65534)
    assert dpsim() == (
        1,
        "",
        "dpsim: the testbed must be started by root, but got user id 65534: try sudo\n",
    )


def test_without_the_tools_it_says_so_with_exit_code_1(dpsim, monkeypatch):
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setenv("PATH", "/nowhere")
    code, out, err = dpsim()
    assert (code, out) == (1, "")
    assert (
        err
        == "dpsim: the testbed must have the program ip, but PATH has none (Debian: apt-get install iproute2)\n"
    )


def test_without_linux_it_says_so_with_exit_code_1(dpsim, monkeypatch):
    monkeypatch.setattr("validate.ranks.testbed.iproute2.sys.platform", "darwin")
    assert dpsim()[0] == 1
