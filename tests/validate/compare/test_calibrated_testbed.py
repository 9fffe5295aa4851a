"""Four recorded runs on real ranks calibrate, and the other sixty are predicted."""

from pathlib import Path

import numpy as np
import pytest

from dpsim.engine import run_scenario
from dpsim.scenario import load_scenario
from dpsim.studies.calibrate import MeasuredRun, fit_constants, profile_of
from validate.records import load_run_records

# Of different settings: algorithms, overlap, compression and eight hosts; servers, gossip and
# models that are averaged are in no set.
KNOWN = [(0, 30, 36, 43), (1, 17, 29, 41)]


@pytest.mark.wide
@pytest.mark.parametrize("known", KNOWN, ids=str)
def test_four_recorded_runs_calibrate_the_other_sixty(monkeypatch, known):
    monkeypatch.chdir(Path(__file__).parents[3])
    records = load_run_records("validate/recorded/steps.json.gz").runs
    steps = [record for record in records if record.kind == "step"]
    runs = [
        MeasuredRun(
            load_scenario(record.case["scenario"], record.case["set"]),
            float(np.median(record.measured_s)),
        )
        for record in steps
    ]
    profile = profile_of(fit_constants([runs[at] for at in known]), "testbed")
    errors = []
    for at, run in enumerate(runs):
        if at not in known:
            scenario = run.scenario.model_copy(update={"calibration": profile})
            predicted = run_scenario(scenario, settle=False).result.mean_step
            errors.append(abs(predicted / run.step_time - 1))
    assert len(errors) == 60
    assert np.median(errors) <= 0.03
    assert np.mean(errors) <= 0.03
