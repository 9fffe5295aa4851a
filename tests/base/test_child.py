import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from threading import Thread

import pytest

from dpsim.base.child import Child
from dpsim.base.errors import DpsimError, FailedError


@pytest.fixture
def child(monkeypatch):
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parent))
    one = Child()
    yield one
    one.end()


def number():
    return os.getpid()


def busy():
    # One call of C, which asks nobody and hears no other thread.
    return sum(range(10**12))


def busy_and_hides_why_it_ended():
    try:
        while True:
            pass
    except BaseException:
        raise RuntimeError("interrupted") from None


def refused():
    raise DpsimError("must be another")


def failed():
    print("a library's own words")
    raise KeyError("x")


def large():
    return len(bytes(2**50))


def counted(report):
    for done in range(1000):
        report(done)
    return "done"


def sleeps(path):
    Path(path).write_text(str(os.getpid()))
    time.sleep(60)


def test_functions_run_in_one_other_process(child):
    assert child.run(number) == child.run(number) != os.getpid()


def test_what_asks_nobody_ends_at_its_limit(child):
    with pytest.raises(FailedError, match=r"takes more than 0.3 CPU seconds, the limit"):
        child.run(busy, seconds=0.3)
    assert child.run(number) != os.getpid()  # another has taken its place


def test_a_library_that_hides_why_it_ended_took_too_long(child):
    with pytest.raises(FailedError, match=r"takes more than 0.3 CPU seconds, the limit"):
        child.run(busy_and_hides_why_it_ended, seconds=0.3)


def test_the_limit_is_that_of_what_is_under_way(child, monkeypatch):
    monkeypatch.setenv("DPSIM_TIME_LIMIT", "0.2")
    with pytest.raises(FailedError, match=r"takes more than 0.2 CPU seconds"):
        child.run(busy)


def test_errors_come_back_as_they_were(child, capfd):
    with pytest.raises(DpsimError, match="must be another"):
        child.run(refused)
    with pytest.raises(FailedError, match="failed: KeyError: 'x'"):
        child.run(failed)
    with pytest.raises(FailedError, match="needs more memory than this machine has"):
        child.run(large)
    out, _ = capfd.readouterr()
    assert out == ""  # it went where narration goes


def test_reports_arrive_and_end_it(child):
    received = []
    assert child.run(counted, report=received.append) == "done"
    assert received == list(range(1000))

    def stop(done):
        if done == 3:
            raise DpsimError("enough")

    with pytest.raises(DpsimError, match="enough"):
        child.run(counted, report=stop)
    assert child.run(number)


def test_another_thread_ends_it(child):
    child.run(number)
    Thread(target=lambda: (time.sleep(0.3), child.end())).start()
    with pytest.raises(FailedError, match=r"ended by the system \(SIGKILL\)"):
        child.run(busy)


def test_it_ends_with_its_parent(tmp_path):
    reported = tmp_path / "child"
    code = f"import test_child as t; t.Child().run(t.sleeps, {str(reported)!r})"
    here = {**os.environ, "PYTHONPATH": os.pathsep.join([*sys.path, str(Path(__file__).parent)])}
    parent = subprocess.Popen([sys.executable, "-c", code], env=here)
    while not (reported.exists() and reported.read_text()):
        time.sleep(0.05)
    parent.kill()
    parent.wait()
    end = time.monotonic() + 20
    while Path(f"/proc/{reported.read_text()}").exists():
        assert time.monotonic() < end
        time.sleep(0.05)
    with pytest.raises(ProcessLookupError):
        os.kill(int(reported.read_text()), signal.SIGCONT)
