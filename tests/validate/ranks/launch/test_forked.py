"""Ranks that are forks of one process: as those that are started, but for what they import."""

import os
import signal
import subprocess
import sys
import time

import pytest
from again import measured_again
from gone import runs, soon

from dpsim.base.errors import DpsimError
from validate.ranks import testbed
from validate.ranks.launch import ENDED_WITHIN_S, RunFailed, launch, loopback

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="forks are only for Linux")

BEGIN = """
import atexit, os, signal, sys, time
from validate.ranks.launch import write_row
rank = int(os.environ["RANK"])
write_row({"pid": os.getpid(), "parent": os.getppid()})
"""


@pytest.fixture
def program(tmp_path):
    """The command of a script, and a folder for modules beside it."""

    def write(code, *words):
        (tmp_path / "program.py").write_text(BEGIN + code)
        return [sys.executable, str(tmp_path / "program.py"), *words]

    return write


LIMITS_S = (0.5, 4, 16)
"""Of runs that are ended: where the machine is busy, the start may take the first of them."""


def failure(command, ranks=2, preload=("json",), **options):
    """The error of a run, after which nothing of the run is left."""
    with pytest.raises(RunFailed) as caught:
        launch(command, loopback(ranks), preload=preload, **{"timeout_s": 30, **options})
    pids = [pid for row in caught.value.run.rows for pid in (row["pid"], row["parent"])]
    # Killed before `launch` returned; a busy machine takes them away a moment later.
    assert soon(lambda: not [pid for pid in pids if pid != os.getpid() and runs(pid)])
    return caught.value


PLACE = """
write_row({
    "variables": {name: text for name, text in os.environ.items() if name not in ("MASTER_PORT", "DPSIM_RECORDS")},
    "words": sys.argv, "path": sys.path, "name": __name__, "folder": os.getcwd(), "input": sys.stdin.read(),
    "main": sys.modules["__main__"].rank, "group": os.getpgid(0) == os.getppid(),
})
sys.stdout.reconfigure(errors="backslashreplace")
atexit.register(print, "bye")
print("one"); print("bad", file=sys.stderr)
"""


@pytest.mark.parametrize("module", [False, True])
def test_a_fork_finds_what_a_started_rank_finds(program, module, tmp_path):
    command = program(PLACE, "a word")
    environment = {"PYTHONPATH": os.pathsep.join([str(tmp_path), *filter(None, sys.path)])}
    if module:
        command[1:2] = ["-m", "program"]
    found = []
    for preload in ((), ["json"]):
        run = launch(command, loopback(2), preload=preload, environment=environment)
        reported = [row for row in run.rows if "variables" in row]
        found.append((reported, [(rank.stdout, rank.stderr) for rank in run.ranks]))
    assert found[0] == found[1]
    assert found[0][1] == [("one\nbye\n", "bad\n")] * 2


def test_a_module_is_imported_once_for_all(program, tmp_path):
    (tmp_path / "slow.py").write_text("import os\nPID = os.getpid()\n")
    code = 'import slow\nwrite_row({"imported": slow.PID})'
    environment = {"PYTHONPATH": os.pathsep.join([str(tmp_path), *filter(None, sys.path)])}
    rows = launch(program(code), loopback(3), preload=["slow"], environment=environment).rows
    parents = {row["parent"] for row in rows if "parent" in row}
    assert {row["imported"] for row in rows if "imported" in row} == parents
    assert len(parents) == 1
    assert os.getpid() not in parents


ENDS = {
    "exits": ("sys.exit('no more paper')", 1, None, "no more paper"),
    "exits with 3": ("sys.exit(3)", 3, None, ""),
    "fails": ("{}['key']", 1, None, "KeyError: 'key'"),
    "is killed": ("os.kill(os.getpid(), signal.SIGSEGV)", None, "SIGSEGV", ""),
}


@pytest.mark.parametrize("how", ENDS)
def test_an_end_is_reported_as_that_of_a_started_rank(program, how):
    code, exit_code, killed_by, output = ENDS[how]
    error = failure(program(f"if rank == 1: {code}\ntime.sleep(60)"))
    assert (error.rank, error.exit_code, error.signal) == (1, exit_code, killed_by)
    assert error.last_words.endswith(output)
    assert [rank.exit_code for rank in error.run.ranks] == [None, exit_code]


AT_THE_END = """
import threading
class Large:
    def __del__(self): os.write(1, b"taken apart ")
threading.Thread(target=lambda: (time.sleep(0.1), print("thread", end=" "))).start()
large = Large()
atexit.register(print, "atexit", end=" ")
"""


def test_where_all_went_well_nothing_is_taken_apart_at_the_end(program):
    """Which would copy the memory of all that was imported."""
    run = launch(program(AT_THE_END + "if rank: sys.exit(0)"), loopback(2), preload=["json"])
    assert [rank.stdout for rank in run.ranks] == ["thread atexit "] * 2
    failed = failure(program(AT_THE_END + "sys.exit(3)"), ranks=1).run
    assert failed.ranks[0].stdout == "thread atexit taken apart "


def test_what_cannot_be_imported_is_for_the_rank_to_say(program):
    launch(program("pass"), loopback(2), preload=["no.such.module"])
    error = failure(program("import no.such.module"), preload=["no.such.module"])
    assert error.last_words.endswith("ModuleNotFoundError: No module named 'no'")


def test_an_interpreter_that_does_not_run_is_reported_and_leaves_nothing_open(tmp_path):
    broken = tmp_path / "broken"
    broken.write_text("#!/no/such/interpreter\n")
    broken.chmod(0o755)
    before = len(os.listdir("/proc/self/fd"))
    with pytest.raises(DpsimError, match="broken: must be a program that runs, but: No such file"):
        launch([str(broken), "program.py"], loopback(2), preload=["json"])
    assert len(os.listdir("/proc/self/fd")) == before


def test_a_run_that_hangs_ends_in_time(program):
    def measure(limit):
        began = time.monotonic()
        error = failure(program("if rank == 1: exec('while True: pass')"), timeout_s=limit)
        return limit, error, time.monotonic() - began

    def check(found):
        limit, error, seconds = found
        assert seconds < limit + ENDED_WITHIN_S
        assert error.rank == 1
        assert f"had not finished after {limit} s" in error.reason

    measured_again(check, measure, *LIMITS_S)


def test_so_does_one_that_hangs_at_the_import(program, tmp_path):
    (tmp_path / "endless.py").write_text("import time\ntime.sleep(60)\n")
    environment = {"PYTHONPATH": os.pathsep.join([str(tmp_path), *filter(None, sys.path)])}

    def measure(limit):
        began = time.monotonic()
        failure(program("pass"), preload=["endless"], environment=environment, timeout_s=limit)
        return limit, time.monotonic() - began

    def check(found):
        limit, seconds = found
        assert seconds < limit + ENDED_WITHIN_S

    measured_again(check, measure, *LIMITS_S)


def test_one_that_falls_over_at_the_import_is_no_rank(program, tmp_path):
    (tmp_path / "fatal.py").write_text("import os\nos.abort()\n")
    environment = {"PYTHONPATH": os.pathsep.join([str(tmp_path), *filter(None, sys.path)])}
    error = failure(program("pass"), preload=["fatal"], environment=environment)
    # Either may be seen first.
    assert (error.rank in (0, 1), error.signal) == (True, "SIGABRT")


def test_what_ranks_start_ends_with_them(program):
    code = (
        'import subprocess\nwrite_row({"pid": subprocess.Popen(["sleep", "60"]).pid, "parent": 0})'
    )
    rows = launch(program(code), loopback(2), timeout_s=30, preload=["json"]).rows
    assert soon(lambda: not any(runs(row["pid"]) for row in rows))


LAUNCHER = """
import sys
from validate.ranks.launch import launch, loopback
launch(sys.argv[1:], loopback(2), timeout_s=60, preload=["json"], on_line=lambda rank, stream, line: print(line, flush=True))
"""


@pytest.mark.parametrize("how", ["SIGKILL", "SIGTERM"])
def test_ranks_and_their_server_end_with_the_launcher(program, how):
    command = program("print(os.getpid(), os.getppid())\ntime.sleep(60)")
    with subprocess.Popen(
        [sys.executable, "-c", LAUNCHER, *command], stdout=subprocess.PIPE, text=True
    ) as launcher:
        pids = [int(pid) for _ in range(2) for pid in launcher.stdout.readline().split()]
        assert [runs(pid) for pid in pids] == [True] * 4
        launcher.send_signal(signal.Signals[how])
        launcher.wait(40)
    assert soon(lambda: not any(map(runs, pids)))


@pytest.mark.testbed
def test_forks_run_on_their_hosts(program):
    code = """
import socket
names = [name for _, name in socket.if_nameindex()]
write_row({"interfaces": names, "namespace": os.readlink("/proc/self/ns/net"), "policy": os.sched_getscheduler(0)})
"""
    with testbed.Testbed(testbed.TestbedConfig(hosts=2)) as up:
        runs_ = [
            launch(program(code), up.hosts, preload=["json"], realtime=wanted)
            for wanted in (True, False)
        ]
    for run, policy in zip(runs_, (os.SCHED_FIFO, os.SCHED_OTHER), strict=True):
        rows = [row for row in run.rows if "policy" in row]
        assert [set(row["interfaces"]) >= {"lo", "eth0"} for row in rows] == [True, True]
        assert len({row["namespace"] for row in rows} | {os.readlink("/proc/self/ns/net")}) == 3
        assert [row["policy"] for row in rows] == [os.SCHED_OTHER if run.notes else policy] * 2
