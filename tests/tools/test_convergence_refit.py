"""The constants of steps to target.

Shipped ones are refitted ones, and no batch is predicted by a fit that saw it.
"""

import dataclasses

import numpy as np
import pytest

from dpsim.base.shipped import shipped_yaml
from dpsim.convergence import tasks
from tools.refits.convergence_refit import (
    CASES,
    CONSTANTS,
    CURVES,
    HITS,
    POINTS,
    runs_of,
    task_constants,
    text,
)


@pytest.mark.wide
def test_shipped_constants_are_refitted_ones():
    assert CONSTANTS.read_text(encoding="utf-8") == text()


@pytest.mark.parametrize("of_one_source", [HITS, CASES, CURVES, POINTS])
def test_shipped_constants_of_a_task_are_refitted_ones(of_one_source):
    name = next(iter(of_one_source))
    assert shipped_yaml(CONSTANTS)["tasks"][name] == task_constants(name)


def test_every_task_has_its_runs():
    assert set(tasks()) == {*HITS, *CASES, *CURVES, *POINTS}
    assert [len(runs_of(name).batches) for name in (*HITS, *CASES)] == [2, 6, 6, 6, 8, 8]


# Not yolov3-voc: what it logs as noise does not give its own progress, up to 20 % off.
@pytest.mark.parametrize("name", HITS)
def test_a_runs_own_noise_gives_its_own_steps(name):
    runs = runs_of(name)
    for index, (batch, steps) in enumerate(zip(runs.batches, runs.steps, strict=True)):
        single = dataclasses.replace(
            runs, batches=(batch,), steps=(steps,), curves=(runs.curves[index],)
        )
        form = single.noise_form().model_copy(update={"base_batch": runs.batches[0]})
        assert form.steps(batch) == pytest.approx(steps, rel=0.1)


def test_the_noise_form_of_the_others_does_not_see_a_run():
    runs = runs_of("resnet18-cifar10")
    other = dataclasses.replace(runs.curves[2], noise=runs.curves[2].noise * 100)
    poisoned = dataclasses.replace(
        runs,
        steps=(*runs.steps[:2], runs.steps[2] / 2, *runs.steps[3:]),
        curves=(*runs.curves[:2], other, *runs.curves[3:]),
    )
    assert poisoned.noise_form(2) == runs.noise_form(2)
    assert poisoned.noise_form_errors()[2] + 1 == pytest.approx(
        2 * (runs.noise_form_errors()[2] + 1)
    )


def test_errors_of_left_out_batches_are_those_that_are_committed():
    committed = {name: task.constants for name, task in tasks().items()}
    for name in HITS:
        errors = np.abs(runs_of(name).noise_form_errors())
        assert committed[name].left_out_by_noise.median == pytest.approx(
            np.median(errors), rel=0.06
        )
