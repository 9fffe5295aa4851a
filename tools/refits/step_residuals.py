"""What predictions of compute leave of models, sources and generations that no fit saw.

Writes ``dpsim/engine/step_residuals.json``: quantiles of ln(measured / predicted). Each model of
the one-GPU table counts as much as another, and so does each source of the language models'. Run
``python -m tools.refits.step_residuals`` after a refit of either.
"""

from __future__ import annotations

import json
from importlib.resources import as_file, files
from pathlib import Path
from typing import Any

import numpy as np

from dpsim.workload import build_model, is_common
from tools.refits.one_gpu_rows import REQUIRED, TABLE, fit_rows, measured_seconds
from tools.refits.residual_quantiles import QUANTILES, residual_quantiles
from tools.refits.roofline_fit import leave_models_out
from tools.refits.roofline_work import catalogue_name, usable
from validate.published import compare_steps
from validate.published.llm import TABLE as LLM_TABLE
from validate.published.llm import is_fused
from validate.published.tables import packaged_table

FILE = Path(str(files("dpsim.engine"))) / "step_residuals.json"


def of_figures() -> dict[str, dict[str, Any]]:
    """Of the roofline: the row's framework and board are not known, as they are to a user.

    Models of convolutions and attention stand apart, too: others wait for their hosts.
    """
    rows = usable(fit_rows(packaged_table(TABLE, REQUIRED)))
    measured = measured_seconds(rows)
    models = [catalogue_name(model) or model for model in rows.text("model").tolist()]
    # Twice: with the effect of the GPU's generation known, and as for one that nobody measured.
    known, unknown = leave_models_out(rows, ("generation",), ())
    common = np.array([is_common(build_model(model)) for model in models])
    found = {}
    for name, rows_of in (("all models", np.ones(len(models), bool)), ("common models", common)):
        names = [models[index] for index in np.flatnonzero(rows_of)]
        found[name] = {
            "groups": len(set(names)),
            "group_left_out": residual_quantiles(np.log(measured / known)[rows_of], names),
            "generation_left_out": residual_quantiles(np.log(measured / unknown)[rows_of], names),
        }
    return found


def of_language_models() -> dict[str, Any]:
    """Of steps by the law of language models: each source, or model of the largest, left out.

    Rows without fused attention are the roofline's. Too few generations were measured to leave
    one out.
    """
    with as_file(files("validate.published") / "data" / LLM_TABLE) as path:
        every = compare_steps(path, "llm").counted
    rows = [row for row in every if is_fused(row.step)]
    residual = np.log([row.measured / row.predicted for row in rows])
    sources = [str(row.identity["source"]) for row in rows]
    gpus = [str(row.identity["gpu"]) for row in rows]
    return {
        "groups": len(set(sources)),
        "gpus": sorted(set(gpus)),
        "group_left_out": residual_quantiles(np.asarray(residual), sources),
    }


def write() -> None:
    """Write the file."""
    content = {
        "quantiles": list(QUANTILES),
        **of_figures(),
        "language models": of_language_models(),
    }
    FILE.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    write()
