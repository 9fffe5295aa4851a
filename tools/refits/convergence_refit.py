"""Fit the constants of dpsim/convergence and write constants.yaml.

``python -m tools.refits.convergence_refit``.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from dpsim.base.arrays import FloatArray
from dpsim.base.terminal import write_whole
from dpsim.convergence import fit_law, left_out_errors
from tools.refits.convergence_runs import CASES, CURVES, HITS, POINTS, Runs, runs_of
from tools.refits.yaml_files import rounded, yaml_text

CONSTANTS = Path(__file__).parents[2] / "dpsim" / "convergence" / "constants.yaml"
HEADER = """\
# Written by: python -m tools.refits.convergence_refit. \
What they are: dpsim/convergence/law.py; of which runs: tasks.yaml.
# value in samples; error: standard deviation of the logarithm; \
left_out: each batch predicted by a law fitted without it.
# Fitted on validate/published/data: convergence.csv, \
adaptdl_convergence.csv and mlperf_reference_points.csv.
"""


def constants() -> dict[str, Any]:
    """Return the content of constants.yaml."""
    return {"tasks": {name: task_constants(name) for name in (*HITS, *CASES, *CURVES, *POINTS)}}


def task_constants(name: str) -> dict[str, Any]:
    """Return the constants of one task with their errors."""
    runs = runs_of(name)
    scales = runs.noise_scales
    noise = None if scales is None else float(np.median(scales))
    law = fit_law(runs.batches, runs.steps, noise)
    found = {
        "least_samples": {
            "value": rounded(law.least_samples, 5),
            "error": rounded(law.least_samples_error, 2),
        },
        "critical_batch": {
            "value": rounded(law.critical_batch, 5),
            "error": rounded(law.critical_batch_error, 2),
        },
        "correlation": rounded(law.correlation, 2),
        "noise": rounded(law.noise, 2),
        "batches": [runs.batches[0], runs.batches[-1]],
        "left_out": _errors(left_out_errors(runs.batches, runs.steps, scales)),
    }
    # Tasks of which only steps are known have no known noise of gradients.
    if noise is None:
        return found
    return found | {"noise_scale": rounded(noise, 3), **_noise_form(runs)}


def _noise_form(runs: Runs) -> dict[str, Any]:
    form = runs.noise_form()
    content = {
        "base_batch": form.base_batch,
        "progress": rounded(form.progress, 5),
        "period": rounded(form.period, 5),
        "noise_scales": [rounded(scale, 3) for scale in form.noise_scales],
    }
    return {"noise_form": content, "left_out_by_noise": _errors(runs.noise_form_errors())}


def _errors(errors: FloatArray) -> dict[str, float]:
    size = np.abs(errors)
    return {
        "runs": len(size),
        "median": rounded(float(np.median(size)), 2),
        "worst": rounded(float(size.max()), 2),
    }


def text() -> str:
    """Return the text of constants.yaml."""
    return yaml_text(HEADER, constants())


if __name__ == "__main__":
    write_whole(CONSTANTS, text())
