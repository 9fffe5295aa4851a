"""Work: shared by key, notified of a cancellation, limited in time."""

import os
from pathlib import Path
from threading import Event
from time import monotonic, sleep

import pytest
import work_apart
from app_pages import is_waiting, settled
from work_here import Here

from app import waiting
from app.work import CancelledError, Task, Tasks
from dpsim.base.child import Child
from dpsim.base.errors import DpsimError


def endless(report):
    done = 0
    while True:
        report(done, 0)
        done += 1


def test_a_task_gives_its_value_or_its_error():
    assert Task(lambda report: 3).begin(Here()).value() == 3
    with pytest.raises(ZeroDivisionError):
        Task(lambda report: 1 // 0).begin(Here()).value()


def test_a_cancelled_task_stops_at_its_next_report():
    task = Task(endless).begin(Here())
    task.cancel()
    with pytest.raises(CancelledError):
        task.value()
    assert task.cancelled


def test_a_task_stops_when_its_last_session_leaves():
    task = Task(endless).begin(Here())
    task.join("a")
    task.join("b")
    task.leave("a")
    assert not task.cancelled
    task.leave("b")
    with pytest.raises(CancelledError):
        task.value()


def test_a_changed_view_and_another_page_leave_their_tasks(monkeypatch):
    session, tasks, shown = {}, Tasks(), ["view"]
    monkeypatch.setattr(waiting.st, "session_state", session)
    monkeypatch.setattr(waiting, "_me", lambda: "me")
    monkeypatch.setattr(waiting.state, "tasks", lambda: tasks)
    monkeypatch.setattr(waiting.state, "current", lambda: shown[0])
    for page, view in (("page", "changed"), ("other", "changed")):
        waiting.leave_others("page")
        task = waiting._task(lambda view, page, report: endless(report), view, page)
        waiting.leave_others("page")
        assert not task.cancelled
        shown[0] = view
        waiting.leave_others(page)
        assert task.cancelled


def test_tasks_are_shared_by_key_and_restarted_after_a_cancellation():
    tasks, calls = Tasks(), []
    first = tasks.start("key", lambda report: calls.append(1))
    first.value()
    assert tasks.start("key", lambda report: calls.append(2)) is first
    stopped = tasks.start("other", endless, "me")
    stopped.cancel()
    assert tasks.start("other", lambda report: 4, "me") is stopped, "until requested again"
    stopped.leave("me")
    assert tasks.start("other", lambda report: 5, "me").value() == 5
    assert calls == [1]


def test_the_oldest_task_is_dropped_and_stopped():
    tasks = Tasks()
    first = tasks.start(0, endless)
    for key in range(1, 65):
        tasks.start(key, lambda report: None)
    assert first.cancelled
    assert tasks.start(0, lambda report: None) is not first


def test_a_session_runs_two_tasks_and_queues_the_others():
    tasks = Tasks(most=3)
    mine = [tasks.start(key, endless, "me") for key in range(3)]
    assert [task.begun for task in mine] == [True, True, False]
    yours = [tasks.start(key, endless, "you") for key in ("a", "b")]
    assert [task.begun for task in yours] == [True, False], "three in all"
    mine[0].cancel()
    wait_until(lambda: mine[2].begun)
    assert not yours[1].begun, "the first in the queue is the first to begin"
    mine[1].cancel()
    wait_until(lambda: yours[1].begun)
    for task in (*mine, *yours):
        task.cancel()


def test_a_queued_task_is_cancelled_at_once():
    tasks = Tasks(most=1)
    first, second = tasks.start(1, endless), tasks.start(2, endless)
    second.cancel()
    with pytest.raises(CancelledError):
        second.value()
    first.cancel()


def test_a_leaving_session_stops_tasks_that_no_other_waits_for():
    tasks = Tasks(most=4)
    own, shared = tasks.start(1, endless, "me"), tasks.start(2, endless, "me")
    tasks.start(2, endless, "you")
    tasks.leave("me")
    assert own.cancelled
    assert not shared.cancelled
    tasks.leave("you")
    assert shared.cancelled


def wait_until(happens, seconds=10):
    end = monotonic() + seconds
    while not happens() and monotonic() < end:
        sleep(0.01)
    assert happens()


def test_a_long_simulation_shows_progress_and_can_be_cancelled_and_restarted(
    open_page, monkeypatch
):
    gate = Event()

    def slowly(spec, report):
        while not gate.wait(0.01):
            report(2, 8)
        raise DpsimError("the gate is open")

    monkeypatch.setattr(waiting, "answer", slowly)
    monkeypatch.setattr(waiting, "PATIENCE", 0.05)
    page = open_page(
        "what_if", wait=False, preset="resnet50-16-v100-local-sgd", set=["run.seed=77"]
    )
    assert is_waiting(page)
    page.button(key="cancel simulating steps").click().run()
    settled(page)
    assert [info.value for info in page.info] == ["Cancelled."]
    gate.set()
    page.button(key="again simulating steps").click().run()
    settled(page)
    assert page.error[0].value == "the gate is open"


class TestApart:
    """In processes, as the server has it."""

    @pytest.fixture
    def tasks(self, monkeypatch):
        monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parent))
        monkeypatch.setattr("app.work.Child", Child)
        monkeypatch.setattr("app.work._prepare", work_apart.nothing)
        monkeypatch.setattr("app.work._prepare_for_long", work_apart.nothing)
        found = Tasks(most=2)
        found.warm()
        yield found
        for task in found._tasks.values():
            task.cancel()
        for child in (*found._short, *found._long):
            child.end()

    def test_values_and_errors_come_from_another_process(self, tasks):
        assert tasks.start("key", work_apart.process, "a").value() != os.getpid()
        with pytest.raises(DpsimError, match="must be another"):
            tasks.start("other", work_apart.refused, "a").value()

    def test_short_tasks_never_wait_for_long_ones(self, tasks):
        long = [tasks.start(number, work_apart.busy, f"long {number}") for number in range(4)]
        deadline = monotonic() + 120
        while not all(task.is_long for task in long):
            assert monotonic() < deadline
            sleep(0.05)
        for number in range(16):
            assert tasks.start(f"key {number}", work_apart.process, f"{number}").value()
        assert not any(task.ended for task in long)
        assert sum(task.begun for task in long) == 1  # the others wait for its process
        for task in long:
            task.cancel()

    def test_tasks_that_can_wait_leave_a_process_to_others(self, tasks):
        beside = [
            tasks.start(number, work_apart.busy, f"beside {number}", can_wait=True)
            for number in range(3)
        ]
        assert [task.begun for task in beside] == [True, False, False]
        requested = tasks.start("key", work_apart.process, "a")
        assert requested.begun
        assert requested.value()
        for task in beside:
            task.cancel()

    def test_a_session_runs_one_long_task(self, tasks):
        tasks._long.append(Child(work_apart.nothing))
        long = [tasks.start(number, work_apart.busy, "one") for number in range(2)]
        deadline = monotonic() + 120
        while not all(task.is_long for task in long):
            assert monotonic() < deadline
            sleep(0.05)
        sleep(0.3)
        assert sum(task.begun for task in long) == 1
        for task in long:
            task.cancel()

    def test_a_task_without_reports_is_cancelled_at_once(self, tasks):
        task = tasks.start("key", work_apart.deaf, "a")
        while not task.begun:
            sleep(0.01)
        sleep(0.2)
        begin = monotonic()
        task.cancel()
        with pytest.raises(CancelledError):
            task.value()
        assert monotonic() - begin < 10
        assert tasks.start("next", work_apart.process, "a").value()

    def test_a_task_over_the_limit_is_stopped_with_the_limit(self, tasks):
        task = Task(work_apart.busy, seconds=0.2)
        task.is_long = True
        task.begin(tasks._long[0])
        with pytest.raises(DpsimError, match=r"takes more than 0.2 CPU seconds"):
            task.value()

    def test_a_task_that_foresees_a_long_run_moves_to_long_work(self, tasks):
        task = tasks.start("key", work_apart.steady, "a")
        assert task.value() == 100
        assert task.is_long
