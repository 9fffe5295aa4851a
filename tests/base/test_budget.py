"""What takes too long or too much memory is refused with a number."""

import json
import math
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from dpsim.base import budget
from dpsim.base.errors import DpsimError, FailedError
from dpsim.engine import simulate
from dpsim.scenario import load_scenario

QUICKSTART = Path(__file__).parents[2] / "scenarios" / "quickstart.yaml"


def _work(seconds):
    end = time.thread_time() + seconds
    while time.thread_time() < end:
        budget.check()


def test_nothing_is_refused_where_nothing_is_under_way(monkeypatch):
    monkeypatch.setenv(budget.TIME_LIMIT, "1e-9")
    _work(0.01)


def test_what_has_had_its_seconds_is_stopped(monkeypatch):
    monkeypatch.setenv(budget.TIME_LIMIT, "0.01")
    with (
        pytest.raises(
            FailedError,
            match=r"takes more than 0\.01 CPU seconds, the limit: take fewer nodes",
        ),
        budget.limited(),
    ):
        _work(1)
    budget.check()


def test_a_part_has_what_is_left_of_the_whole(monkeypatch):
    monkeypatch.setenv(budget.TIME_LIMIT, "0.02")

    @budget.limited()
    def part():
        _work(0.01)

    @budget.limited()
    def whole():
        for _ in range(10):
            part()

    with pytest.raises(FailedError, match="takes more than"):
        whole()


def test_a_limit_around_a_study_ends_all_of_it():
    refused = []

    @budget.limited(0.01)
    def study():
        own = budget.Budget()
        for number in range(3):
            try:
                with own.part():
                    _work(0.008)
            except DpsimError:
                refused.append(number)

    with pytest.raises(FailedError, match=r"takes more than 0\.01 CPU seconds"):
        study()
    assert not refused


def test_steps_tell_how_long_all_will_take(monkeypatch):
    monkeypatch.setenv(budget.TIME_LIMIT, "0.1")
    with budget.limited():
        forecast = budget.Forecast(1_000_000, lambda done: None)
        forecast.done(3)
        end = time.thread_time() + 0.01
        while time.thread_time() < end:
            pass
        with pytest.raises(
            FailedError,
            match=r"would take about \d,\d{3} CPU seconds for 1,000,000 steps \(5 took 0\.01",
        ):
            forecast.done(8)


def test_a_simulation_of_too_many_steps_is_refused_at_once(tiny, monkeypatch):
    monkeypatch.setenv(budget.TIME_LIMIT, "1")
    # Steps that are all alike would be simulated, in a few seconds: these are not.
    unlike = {"jitter": {"kind": "lognormal", "sigma": 0.1}}
    scenario = tiny(run={"steps": 1_000_000}, disturbance=unlike)
    started = time.thread_time()
    with pytest.raises(FailedError, match=r"would take about \d+ CPU seconds for 1,000,000 steps"):
        simulate(scenario)
    assert time.thread_time() - started < 3


def test_a_refusal_names_the_engine_that_says_the_same_in_less_time(tiny, monkeypatch):
    monkeypatch.setenv(budget.TIME_LIMIT, "5")
    unlike = {"jitter": {"kind": "lognormal", "sigma": 0.1}}
    run = {"steps": 100_000, "engine": "events"}
    with pytest.raises(
        FailedError,
        match=r"the limit is 5 s: set run.engine: auto \(the same answer in about [\d,.]+ s\), or take",
    ):
        simulate(tiny(run=run, disturbance=unlike))


@pytest.mark.parametrize(
    ("settings", "quicker"),
    [
        (
            ["cluster.nodes=4096"],
            r"set run\.engine: auto \(the same answer in about [\d.]+ s\), or",
        ),
        (
            [
                "cluster.nodes=4096",
                "strategy.aggregation={kind: sharded, stage: 3, weight_bytes: 2, shard_group: 16}",
            ],
            r"set run\.engine: vector \(an approximation in about [\d.]+ s\), or",
        ),
        (
            [
                "cluster.nodes=64",
                "run.network_model=flows",
                "strategy.aggregation={kind: allreduce, algorithm: ring, library: ideal}",
            ],
            r"set run\.network_model: auto, or",
        ),
    ],
)
def test_one_step_of_too_many_events_is_refused_before_it(settings, quicker, monkeypatch):
    monkeypatch.setenv(budget.TIME_LIMIT, "1")
    one = ["run.engine=events", "run.steps=1", "run.warmup=0", *settings]
    scenario = load_scenario(QUICKSTART, one)
    started = time.thread_time()
    with pytest.raises(
        FailedError,
        match=r"would take about \d+ CPU seconds for 1 step \(a rough estimate\), the limit "
        rf"is 1 s: {quicker} take fewer nodes",
    ):
        simulate(scenario)
    assert time.thread_time() - started < 2


@pytest.mark.parametrize("text", ["", "x", "0", "-1", "nan"])
def test_a_limit_that_is_none(text, monkeypatch):
    monkeypatch.setenv(budget.TIME_LIMIT, text)
    with pytest.raises(DpsimError, match=r"DPSIM_TIME_LIMIT must be a number of seconds above 0"):
        budget.time_limit()


def test_missing_memory_is_reported_in_bytes():
    assert 1e6 < budget.available_memory() < math.inf
    with pytest.raises(
        FailedError,
        match=r"a cube would need about 1e\+09 GB, and this machine has [\d.e+]+ GB: take fewer",
    ):
        budget.check_memory(1e18, "a cube")


def test_an_array_that_has_no_room_is_an_error_with_its_size():
    with (
        pytest.raises(
            FailedError,
            match=r"needs more memory than this machine has .*: Unable to allocate .* PiB",
        ),
        budget.limited(),
    ):
        np.empty(2**56, dtype=np.float64)


SLOW = {  # messages over a transport of links that stall one another without end
    "name": "p",
    "kind": "transport",
    "parameters": {
        "burst": {"value": 8, "unit": "s"},
        "contention": {"value": 2, "unit": "s/B"},
        "latency": {"value": 2, "unit": "s"},
    },
    "residuals": {
        "counted_on": "fitted rows",
        "n": 1,
        "worst_bytes": 1,
        **dict.fromkeys(("median_ape", "mean_ape", "p95_ape", "worst_ape"), 0.1),
    },
}


@pytest.mark.parametrize(
    "command",
    [
        ("topology", QUICKSTART, "--set", "cluster.nodes=2", "--set", "calibration=SLOW"),
        (
            "collective",
            "--ranks",
            "512",
            "--bandwidth",
            "1 GB/s",
            "--algorithm",
            "all-to-all",
            "--network-model",
            "flows",
        ),
    ],
)
def test_commands_without_steps_are_held_to_it_too(command, dpsim, monkeypatch, tmp_path):
    (tmp_path / "slow.json").write_text(json.dumps(SLOW))
    monkeypatch.setenv(budget.TIME_LIMIT, "0.05")
    code, out, err = dpsim(
        *(str(word).replace("SLOW", str(tmp_path / "slow.json")) for word in command)
    )
    assert (code, out) == (1, "")
    assert "takes more than 0.05 CPU seconds, the limit" in err


class AskingError(MemoryError):
    """An error in whose handler the signal comes."""

    def __str__(self):
        budget._on_signal(0, None)
        return "shown"


def test_a_signal_while_an_error_is_handled_is_the_limit_s_error():
    with pytest.raises(FailedError, match=r"takes more than 0 CPU seconds"), budget.limited(0.0):
        raise AskingError
    budget._on_signal(0, None)  # no limit is left


def test_a_signal_in_a_finalizer_prints_nothing_and_asks_again():
    code = """
import time, weakref
from dpsim.base import budget, errors
budget.check_by_signal()
class Slow:
    def __del__(self):
        end = time.thread_time() + 0.3
        while time.thread_time() < end: pass
try:
    with budget.limited(0.1):
        Slow()
        while True: pass
except errors.FailedError as error:
    print(error)
"""
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ended.stderr == ""
    assert "takes more than 0.1 CPU seconds" in ended.stdout
