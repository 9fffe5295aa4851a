"""Rows that the constants saw are predicted by constants that did not see them."""

import json
from dataclasses import replace
from importlib.resources import files

import numpy as np
import pytest

from dpsim.engine import prepare, run_scenario
from dpsim.hardware import CalibrationProfile
from dpsim.workload import constants_for
from tools.refits.compute_fit import PublishedWork, assumed_values, fit, predict
from tools.refits.compute_refit import FITTED_ON, published_steps, works
from validate.published.step_reference import LEFT_OUT, TABLES, unseen
from validate.published.tables.packaged import packaged_rows
from validate.published.tables.scenario_files import ScenarioFolder

WITHOUT = json.loads(files("validate.published").joinpath(LEFT_OUT).read_text(encoding="utf-8"))


@pytest.mark.parametrize("kind", FITTED_ON)
def test_every_row_that_was_fitted_on_has_constants_that_did_not_see_it(kind):
    groups = {TABLES[kind].group(step.row) for step in published_steps(kind)}
    assert groups <= set(WITHOUT)


@pytest.mark.parametrize("kind", FITTED_ON)
def test_a_row_that_constants_saw_is_predicted_by_a_profile_without_its_group(kind, tmp_path):
    step = next(published_steps(kind))
    folder = ScenarioFolder(tmp_path, keeps=False)
    plain, group = folder.scenario(step), TABLES[kind].group(step.row)
    found = unseen(step, group, plain)
    assert found.constants == f"shipped, without {group}"
    scenario = folder.scenario(found)
    profile = CalibrationProfile.model_validate_json(found.files[found.scenario["calibration"]])
    workload, gpu = plain.workload, plain.cluster.accelerator
    shipped = constants_for(
        plain.build_model(), gpu.architecture, workload.precision, workload.full_software
    )
    other = shipped.measured(
        {name: each.value for name, each in profile.constants.items()}, workload.precision
    )
    assert prepare(scenario).times[0].step == prepare(plain, other).times[0].step
    assert run_scenario(scenario).step_time != run_scenario(plain).step_time


def test_a_group_that_no_fit_saw_takes_the_shipped_constants(tmp_path):
    step = next(published_steps("steps"))
    scenario = ScenarioFolder(tmp_path, keeps=False).scenario(step)
    assert unseen(step, "steps somebody else", scenario) is step


def few(kind: str, every: int) -> list[PublishedWork]:
    return works(kind, [*published_steps(kind)][::every])


def test_a_fit_finds_the_constants_that_made_the_steps():
    rows = [*few("llm", 40), *few("steps", 40), *few("mlperf", 40)]
    truth = assumed_values()
    truth["generations"]["hopper"]["products"] *= 0.8
    truth["precision"]["half"]["product"] = 0.6
    truth["software"]["mlperf"]["elementwise"] *= 1.3
    made = predict(rows, truth)
    measured = [replace(row, measured=seconds) for row, seconds in zip(rows, made, strict=True)]
    found = fit(measured)
    again = predict(rows, found.values)
    assert np.median(np.abs(again / made - 1)) < 0.02
    assert found.values["generations"]["hopper"]["products"] == pytest.approx(0.8, rel=0.1)
    assert found.values["precision"]["half"]["product"] == pytest.approx(0.6, rel=0.1)


def test_the_fit_computes_what_the_engine_computes(tmp_path):
    """By the constants of the package: its queue of kernels is a smooth maximum there."""
    folder = ScenarioFolder(tmp_path, keeps=False)
    steps = [*published_steps("steps")][::60]
    shipped = _shipped()
    rows = works("steps", steps)
    assert len(rows) == len(steps) > 10
    engine = [run_scenario(folder.scenario(step)).step_time for step in steps]
    assert predict(rows, shipped) == pytest.approx(engine, rel=0.2)
    ratio = predict(rows, shipped) / np.array(engine)
    assert np.median(np.abs(ratio - 1)) < 0.01


def _shipped():
    from dpsim.workload import PARTS, constants_file

    content = constants_file()
    return {
        part: {
            member: {name: entry["value"] for name, entry in table.items()}
            for member, table in content[part].items()
        }
        for part in PARTS
    }


def test_all_tables_are_in_the_package():
    assert all(packaged_rows(TABLES[kind].fitted) for kind in FITTED_ON)
