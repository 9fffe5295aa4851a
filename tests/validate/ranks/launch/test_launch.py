"""Ranks on this machine.

What they get, what is kept of them, and how a run ends when one of them does not.
"""

import os
import re
import signal
import socket
import subprocess
import sys
import time

import pytest
from again import measured_again
from gone import runs, soon

from dpsim.base.errors import DpsimError
from validate.ranks.launch import ENDED_WITHIN_S, Host, RunFailed, launch, loopback

BEGIN = """
import os, sys, time, signal, socket
from validate.ranks.launch import report_connected, write_row
rank = int(os.environ["RANK"])
write_row({"pid": os.getpid()})
"""


LIMITS_S = (0.8, 4, 16)
"""Of runs that are ended: where the machine is busy, the start may take the first of them."""


def python(code, begin=BEGIN):
    return [sys.executable, "-c", begin + code]


def failure(code, ranks=3, **options):
    """The error of a run, after which nothing of the run is left."""
    with pytest.raises(RunFailed) as caught:
        launch(python(code), loopback(ranks), **{"timeout_s": 30, **options})
    assert not [row["pid"] for row in caught.value.run.rows if "pid" in row and runs(row["pid"])]
    return caught.value


@pytest.mark.parametrize("jump", [-86_400, 86_400])
def test_a_clock_that_is_set_meanwhile_moves_no_limit(monkeypatch, jump):
    real, began = time.time, time.monotonic()
    monkeypatch.setattr("time.time", lambda: real() + (time.monotonic() > began + 1) * jump)
    with pytest.raises(RunFailed, match="had not finished after 2 s, silent for") as caught:
        launch(python("time.sleep(60)"), loopback(1), timeout_s=2)
    assert 0 <= float(re.search(r"silent for ([-\d.]+) s", str(caught.value))[1]) < 60


def test_a_rank_knows_its_place():
    names = [
        "RANK",
        "WORLD_SIZE",
        "LOCAL_RANK",
        "LOCAL_WORLD_SIZE",
        "MASTER_ADDR",
        "GLOO_SOCKET_IFNAME",
        "OMP_NUM_THREADS",
        "MORE",
    ]
    code = f"write_row({{name: os.environ[name] for name in {names}}})"
    run = launch(python(code), loopback(2), environment={"MORE": "x"})
    places = [tuple(row[name] for name in names) for row in run.rows if "RANK" in row]
    interface = loopback(1)[0].interface
    assert places == [
        (str(rank), "2", str(rank), "2", "127.0.0.1", interface, "1", "x") for rank in range(2)
    ]


def test_local_ranks_count_on_each_host():
    a, b = (Host(name, "127.0.0.1", "lo") for name in "ab")
    code = 'write_row({"local": [os.environ["LOCAL_RANK"], os.environ["LOCAL_WORLD_SIZE"]]})'
    run = launch(python(code), [a, b, a])
    assert [row["local"] for row in run.rows if "local" in row] == [
        ["0", "2"],
        ["0", "1"],
        ["1", "2"],
    ]


def test_rank_0_can_listen_on_the_port_and_the_others_reach_it():
    code = """
place = os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])
if rank == 0:
    with socket.create_server(place) as server:
        for _ in range(2): server.accept()[0].close()
else:
    while True:
        try: socket.create_connection(place).close(); break
        except ConnectionRefusedError: time.sleep(0.02)
write_row({"port": place[1]})
"""
    run = launch(python(code), loopback(3), timeout_s=20)
    ports = {row["port"] for row in run.rows if "port" in row}
    assert len(ports) == 1
    socket.create_server(("127.0.0.1", ports.pop())).close()  # and the port is free again


def test_output_is_handed_on_by_line_and_kept():
    message = []
    code = 'print("one"); print("two", end=""); print("bad", file=sys.stderr)'
    run = launch(python(code), loopback(2), on_line=lambda *line: message.append(line))
    assert [(rank.stdout, rank.stderr) for rank in run.ranks] == [("one\ntwo", "bad\n")] * 2
    lines = [("stdout", "one"), ("stdout", "two"), ("stderr", "bad")]
    assert sorted(message) == sorted((rank, *line) for rank in (0, 1) for line in lines)


def test_the_end_of_endless_output_is_kept():
    (rank,) = launch(python('sys.stdout.write("x" * 3_000_000 + "end")'), loopback(1)).ranks
    assert rank.stdout == "x" * (2**18 - 3) + "end"


def test_a_rank_that_exits_ends_the_run_with_its_last_words():
    error = failure(
        'write_row({"x": 1})\nif rank == 1: raise SystemExit("no more paper")\ntime.sleep(60)'
    )
    assert (error.rank, error.host, error.exit_code, error.signal) == (1, "localhost", 1, None)
    assert error.last_words == "no more paper"
    assert str(error).startswith("rank 1 on localhost exited with code 1 after ")
    assert str(error).endswith("; its last words:\n  no more paper")
    assert [rank.exit_code for rank in error.run.ranks] == [None, 1, None]
    assert {"rank": 1, "x": 1} in error.run.rows
    assert error.run.seconds < 25


def test_warnings_that_a_library_logs_are_no_last_words():
    logged = "[W1122 00:21:55.548109287 socket.cpp:207] [c10d] The hostname cannot be retrieved."
    code = f'sys.stderr.write("{logged}\\n")\nif rank == 1: print("out of memory", flush=True)\nsys.exit(rank)'
    error = failure(code, ranks=2)
    assert error.last_words == "out of memory"
    assert failure(f'sys.stderr.write("{logged}\\n")\nsys.exit(1)', ranks=1).last_words == logged


def test_a_rank_that_is_killed_ends_the_run():
    error = failure("if rank == 2: os.kill(os.getpid(), signal.SIGSEGV)\ntime.sleep(60)")
    assert (error.rank, error.exit_code, error.signal) == (2, None, "SIGSEGV")
    assert "rank 2 on localhost was killed by SIGSEGV after" in str(error)
    assert str(error).endswith("its last words: none")


def test_a_killed_rank_is_named_before_those_that_fail_since_it_is_gone():
    code = """
place = os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])
if rank == 1:
    with socket.create_server(place) as server:
        peer = server.accept()[0]
        os.kill(os.getpid(), signal.SIGKILL)
while True:
    try: peer = socket.create_connection(place); break
    except ConnectionRefusedError: time.sleep(0.01)
peer.recv(1)
raise SystemExit("connection closed by rank 1")
"""
    error = failure(code, ranks=2)
    assert (error.rank, error.signal) == (1, "SIGKILL")


def test_a_hanging_run_ends_in_time_and_names_the_rank_that_was_silent_longest():
    code = """
for step in range(1000):
    if rank == 1 and step == 3: time.sleep(60)
    write_row({"step": step}); time.sleep(0.02)
"""

    def measure(limit):
        began = time.monotonic()
        error = failure(code, timeout_s=limit)
        return limit, error, time.monotonic() - began

    def check(found):
        limit, error, seconds = found
        assert seconds < limit + ENDED_WITHIN_S
        assert (error.rank, error.exit_code, error.signal) == (1, None, None)
        assert f"rank 1 on localhost had not finished after {limit} s, silent for " in str(error)
        assert "so did rank 0, 2" in str(error)
        assert [row["step"] for row in error.run.ranks[1].rows if "step" in row] == [0, 1, 2]

    measured_again(check, measure, *LIMITS_S)


def test_a_rank_that_finishes_is_not_named_as_hanging():
    def measure(limit):
        return failure("if rank == 1: time.sleep(60)", timeout_s=limit)

    def check(error):
        assert error.rank == 1

    measured_again(check, measure, *LIMITS_S)


def test_a_rank_that_cannot_connect_ends_the_run_with_its_output():
    code = 'if rank == 1: socket.create_connection((os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])))\ntime.sleep(60)'
    error = failure(code, ranks=2)
    assert error.rank == 1
    assert error.last_words.endswith("Connection refused")


def test_ranks_that_do_not_say_that_they_connected_end_the_run():
    def measure(limit):
        began = time.monotonic()
        error = failure("if rank != 1: report_connected()\ntime.sleep(60)", connect_timeout_s=limit)
        return limit, error, time.monotonic() - began

    def check(found):
        limit, error, seconds = found
        assert seconds < limit + ENDED_WITHIN_S
        assert error.rank == 1
        assert f"had not connected after {limit} s" in str(error)

    measured_again(check, measure, *LIMITS_S)


def test_connecting_in_time_is_enough():
    def measure(limit):
        code = f"report_connected(); time.sleep({limit + 0.3})"
        try:
            launch(python(code), loopback(2), connect_timeout_s=limit)
        except RunFailed as error:
            return str(error)
        return "nothing"

    def check(failed):
        assert failed == "nothing"

    measured_again(check, measure, *LIMITS_S)


def test_what_ranks_start_ends_with_them():
    code = 'import subprocess\nchild = subprocess.Popen(["sleep", "60"]); write_row({"pid": child.pid})'
    began = time.monotonic()
    run = launch(
        python(code), loopback(2), timeout_s=30
    )  # although the children hold the ranks' stdout open
    assert time.monotonic() - began < 25
    assert soon(lambda: not any(runs(row["pid"]) for row in run.rows))


LAUNCHER = """
import sys
from validate.ranks.launch import launch, loopback
launch([sys.executable, "-c", sys.argv[1]], loopback(2), timeout_s=60, on_line=lambda rank, stream, line: print(line, flush=True))
"""


@pytest.mark.parametrize("how", ["SIGKILL", "SIGTERM", "SIGINT"])
def test_ranks_and_what_they_started_end_with_their_launcher(how):
    code = 'import os, subprocess, time\nprint(os.getpid(), subprocess.Popen(["sleep", "60"]).pid)\ntime.sleep(60)'
    command = [sys.executable, "-c", LAUNCHER, code]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as launcher:
        pids = [int(pid) for _ in range(2) for pid in launcher.stdout.readline().split()]
        assert [runs(pid) for pid in pids] == [True] * 4
        launcher.send_signal(signal.Signals[how])
        launcher.wait(40)
    assert soon(lambda: not any(map(runs, pids)))


def test_a_record_that_was_cut_off_is_left_out():
    torn = 'open(os.environ["DPSIM_RECORDS"] + "/rank-0.jsonl", "a").write(\'{"x": \')\nraise SystemExit(1)'
    assert [list(row) for row in failure(torn, ranks=1).run.rows] == [["rank", "pid"]]


def test_an_error_in_on_line_leaves_no_rank_behind():
    pids = []

    def interrupt(rank, stream, line):
        pids.append(int(line))
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        launch(python("print(os.getpid())\ntime.sleep(60)"), loopback(2), on_line=interrupt)
    assert pids
    assert not any(map(runs, pids))


BAD = {
    "no host": ((["true"], []), {}, "a run must have at least 1 rank, but got 0 hosts"),
    "no command": (
        ([], loopback(1)),
        {},
        "the command must be a program that is there, but got none",
    ),
    "no such command": (
        (["no-such"], loopback(1)),
        {},
        "the command must be a program that is there, but got 'no-such'",
    ),
    "no time": (
        (["true"], loopback(1)),
        {"timeout_s": 0},
        "timeout_s must be above 0 and finite, but got 0",
    ),
    "endless": (
        (["true"], loopback(1)),
        {"connect_timeout_s": float("inf")},
        "connect_timeout_s must be above 0 and finite",
    ),
}


@pytest.mark.parametrize("name", BAD)
def test_a_failed_launch_is_reported(name):
    arguments, options, message = BAD[name]
    with pytest.raises(DpsimError, match=message):
        launch(*arguments, **options)


def test_recording_outside_of_a_run_is_an_error():
    environment = {
        name: value for name, value in os.environ.items() if not name.startswith("DPSIM_")
    }
    code = "from validate.ranks.launch import report_connected, write_row\nreport_connected()\nwrite_row({})"
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=False
    )
    assert (
        "DpsimError: a row must have a folder to go to, but DPSIM_RECORDS is not set" in done.stderr
    )
