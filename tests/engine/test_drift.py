"""A run whose steps had not settled says so."""

import numpy as np
import pytest

from dpsim import simulate
from dpsim.engine.steps import drift


def test_steps_that_grow_drift_and_equal_ones_do_not():
    assert drift(np.ones((30, 4))) == 0
    assert drift(np.linspace(1, 1.1, 30)[:, None]) == pytest.approx(0.0657, abs=1e-3)
    assert drift(np.linspace(1.1, 1, 30)[:, None]) < 0
    assert drift(np.linspace(1, 1.005, 30)[:, None]) == 0  # below 1 %


def test_noise_is_no_drift():
    random = np.random.default_rng(0)
    found = [drift(1 + 0.1 * random.standard_normal((60, 1))) for _ in range(300)]
    assert sum(each != 0 for each in found) <= 2


def test_periods_are_taken_whole():
    """A long step every ten is no drift, wherever the thirds begin."""
    steps = np.where(np.arange(95) % 10 == 9, 5.0, 1.0)[:, None]
    assert drift(steps, 10) == 0


def test_stale_workers_that_still_run_ahead_are_not_reported_as_steady(tiny):
    """Worker 0 takes twice as long. The others run ahead until the bound stops them at its pace:
    before that their steps take 10.5 s, after it 21 s.
    """
    slow = {"slow": [{"workers": [0], "factor": 2}]}
    sync = {"kind": "ssp", "staleness": 12}
    early = simulate(tiny(4, sync=sync, disturbance=slow, run={"steps": 30}))
    assert not early.steady
    assert early.to_json()["steady"] is False
    (warning,) = early.warnings
    assert warning.startswith("steps had not settled: the last third is ")
    settled = simulate(tiny(4, sync=sync, disturbance=slow, run={"steps": 30, "warmup": 40}))
    assert settled.steady
    assert settled.warnings == []
