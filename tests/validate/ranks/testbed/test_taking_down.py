"""However a testbed ends, nothing of it is left, and nobody else's is touched."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from again import measured_again
from gone import runs, soon

from validate.ranks import testbed
from validate.ranks.launch import ENDED_WITHIN_S, RunFailed, launch

pytestmark = pytest.mark.testbed


def names(pid):
    """The namespaces of a process's testbeds. Others may have testbeds here at the same time."""
    listed = subprocess.run(
        ["ip", "netns"], check=True, capture_output=True, text=True
    ).stdout.split()
    return [name for name in listed if re.match(rf"dpsim-{pid}-", name)]


def links():
    """The machine's own links: a testbed's are only in its namespaces."""
    return [
        line["ifname"]
        for line in json.loads(
            subprocess.run(["ip", "-j", "link"], check=True, capture_output=True).stdout
        )
    ]


@pytest.fixture(autouse=True)
def nothing_is_left():
    before = links()
    yield
    assert names(os.getpid()) == []
    assert links() == before


SMALL = testbed.TestbedConfig(hosts=2)


def python(code):
    return [
        sys.executable,
        "-c",
        "import os, sys, time\nfrom validate.ranks.launch import write_row\n" + code,
    ]


def test_a_testbed_is_there_inside_the_block_and_gone_after_it():
    with testbed.Testbed(SMALL) as up:
        assert len(names(os.getpid())) == 3  # two hosts, and the switch
        assert [host.address for host in up.hosts] == ["10.77.0.1", "10.77.0.2"]
    assert names(os.getpid()) == []


def test_an_exception_takes_it_down():
    with pytest.raises(ZeroDivisionError), testbed.Testbed(SMALL):
        _ = 1 / 0


def test_ranks_run_on_their_hosts():
    code = 'import socket\nwrite_row({"interfaces": [name for _, name in socket.if_nameindex()], "policy": os.sched_getscheduler(0)})'
    with testbed.Testbed(SMALL) as up:
        realtime, usual = (
            launch(python(code), up.hosts, realtime=wanted) for wanted in (True, False)
        )
    assert [set(row["interfaces"]) >= {"lo", "eth0"} for row in realtime.rows] == [True, True]
    expected = os.SCHED_OTHER if realtime.notes else os.SCHED_FIFO
    assert [row["policy"] for row in realtime.rows] == [expected] * 2
    assert [row["policy"] for row in usual.rows] == [os.SCHED_OTHER] * 2


ENOUGH = (30, 30, 30)  # seconds that a run has, each time that it is tried
BRIEF = (0.8, 3, 9)  # the start may take the first of them
FAULTS = {
    "exits": ("raise SystemExit('no more paper')", ENOUGH, "exited with code 1 after"),
    "is killed": ("os.kill(os.getpid(), 9)", ENOUGH, "was killed by SIGKILL after"),
    "hangs": ("time.sleep(60)", BRIEF, "had not finished after {limit} s"),
    "hangs at work": ("exec('while True: pass')", BRIEF, "had not finished after {limit} s"),
    "cannot connect": (
        "import socket; socket.create_connection((os.environ['MASTER_ADDR'], "
        "int(os.environ['MASTER_PORT'])), 20)",
        ENOUGH,
        "exited with code 1 after",
    ),
}


# Of two that hang one has a processor for as long as the run.
@pytest.mark.parametrize(
    "fault",
    [
        pytest.param(fault, marks=pytest.mark.wide) if fault == "hangs at work" else fault
        for fault in FAULTS
    ],
)
def test_a_rank_that_fails_ends_the_run_and_keeps_what_was_measured(fault):
    does, limits, message = FAULTS[fault]
    code = f"""
for number in range(20): write_row({{"pid": os.getpid(), "number": number}}); time.sleep(0.01)
if os.environ["RANK"] == "1": {does}
for number in range(600): write_row({{"pid": os.getpid(), "number": 20 + number}}); time.sleep(0.1)
"""

    def measure(limit):
        began = time.monotonic()
        with testbed.Testbed(SMALL) as up, pytest.raises(RunFailed) as caught:
            launch(python(code), up.hosts, timeout_s=limit)
        assert time.monotonic() - began < min(limit, 10) + ENDED_WITHIN_S
        assert not any(runs(row["pid"]) for row in caught.value.run.rows)
        return limit, caught.value

    def check(found):
        limit, error = found
        assert "rank 1 on host1 " + message.format(limit=limit) in str(error)
        assert [row["number"] for row in error.run.ranks[1].rows] == list(range(20))
        other = [row["number"] for row in error.run.ranks[0].rows]
        assert other == list(range(len(other))) != []

    measured_again(check, measure, *limits)


def test_what_left_its_process_group_ends_with_the_testbed():
    code = "import subprocess\nwrite_row({'pid': subprocess.Popen(['sleep', '60'], start_new_session=True).pid})"
    with testbed.Testbed(SMALL) as up:
        pids = [row["pid"] for row in launch(python(code), up.hosts).rows]
        assert [runs(pid) for pid in pids] == [True, True]
    assert not any(map(runs, pids))


def command(code, **options):
    """A started ``dpsim validate testbed`` whose two ranks run a shell script."""
    line = [
        sys.executable,
        "-c",
        "from dpsim.cli import main; main()",
        "validate",
        "testbed",
        "--hosts",
        "2",
        "--",
        "sh",
        "-c",
        code,
    ]
    return subprocess.Popen(
        line, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE, **options
    )


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_signals_take_it_down(number):
    with command("echo $$; sleep 60") as started:
        pids = [int(started.stdout.readline().split()[1]) for _ in range(2)]
        assert len(names(started.pid)) == 3
        started.send_signal(number)
        started.communicate(timeout=40)
    assert started.returncode != 0
    assert names(started.pid) == []
    assert soon(lambda: not any(map(runs, pids)))


def test_impatience_at_the_terminal_does_not_stop_it_from_being_taken_down():
    with command("echo $$; sleep 60", start_new_session=True) as started:
        pids = [int(started.stdout.readline().split()[1]) for _ in range(2)]
        for _ in range(3):
            os.killpg(
                started.pid, signal.SIGINT
            )  # as Ctrl-C does: to the program and the programs that it runs
            time.sleep(0.01)
        started.communicate(timeout=40)
    assert names(started.pid) == []
    assert soon(lambda: not any(map(runs, pids)))


def test_a_signal_while_it_comes_up_takes_it_down():
    with command("sleep 60") as started:
        assert soon(lambda: names(started.pid))
        started.send_signal(signal.SIGTERM)
        started.communicate(timeout=40)
    assert started.returncode == 128 + signal.SIGTERM
    assert names(started.pid) == []


def test_what_a_killed_one_leaves_the_next_start_removes():
    escapes = "setsid sleep 60 & echo $$ $!; sleep 60"
    with command(escapes) as started:
        pids = [[int(pid) for pid in started.stdout.readline().split()[1:]] for _ in range(2)]
        started.kill()
        started.wait(40)
        assert soon(lambda: not any(runs(rank) for rank, _ in pids)), (
            "ranks end with their launcher at once"
        )
        with testbed.Testbed(SMALL):  # anybody's next start, this or another's
            assert names(started.pid) == []
    assert not any(runs(pid) for rank in pids for pid in rank)


def test_testbeds_of_running_processes_are_kept():
    with testbed.Testbed(SMALL) as first:
        there = names(os.getpid())
        assert not set(there) & set(testbed.remove_leftovers())
        with testbed.Testbed(SMALL) as second:
            assert len(names(os.getpid())) == 6
            assert not {host.prefix for host in first.hosts} & {
                host.prefix for host in second.hosts
            }
        assert names(os.getpid()) == there


def test_a_number_that_another_process_has_by_now_does_not_protect():
    name = f"dpsim-{os.getpid()}-1-0f-host0"
    subprocess.run(["ip", "netns", "add", name], check=True)
    assert name in testbed.remove_leftovers() or names(os.getpid()) == []


def test_a_name_without_a_namespace_is_removed_too():
    gone = subprocess.Popen(["true"])
    gone.wait()
    file = (
        Path("/run/netns") / f"dpsim-{gone.pid}-1-0f-host0"
    )  # what is there when its maker dies between naming and mounting
    file.touch()
    testbed.remove_leftovers()
    assert not file.exists()


def test_a_missing_part_of_the_kernel_is_named_and_nothing_is_left(tmp_path, monkeypatch):
    fake = tmp_path / "tc"
    fake.write_text("#!/bin/sh\necho 'Error: Specified qdisc kind is unknown.' >&2\nexit 2\n")
    fake.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    message = "the testbed must have the limiter tbf, but 'tc -n .* -batch -' failed: Error: Specified qdisc kind is unknown."
    with pytest.raises(testbed.TestbedError, match=message), testbed.Testbed(SMALL):
        pass
