"""The residuals of the memory model against published peaks.

Writes ``dpsim/engine/memory_residuals.json``: the spread of ln(measured / predicted). Nothing is
fitted to these peaks, so no row is left out. Each configuration has the same weight, whatever its
number of rows, and a new peak like them is one more configuration. For unlike ones the draws are
generations of GPUs. Run ``python -m tools.refits.memory_residuals`` after a change of the memory
model.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from scipy.special import ndtri, stdtrit

from dpsim.base.uncertainty import Spread
from dpsim.engine import memory_use
from tools.refits.residual_quantiles import spread_of
from validate.published.step_tables.llm import TABLE, step_of_row
from validate.published.tables.csv_file import NotPredictedError
from validate.published.tables.packaged import packaged_rows
from validate.published.tables.scenario_files import ScenarioFolder

FILE = Path(str(files("dpsim.engine"))) / "memory_residuals.json"


@dataclass(frozen=True, slots=True)
class Peak:
    """A published peak of a GPU's memory: its residual, and the traits by which peaks are alike.

    ``case`` is the configuration, whatever its number of GPUs.
    """

    case: str
    model: str
    architecture: str
    precision: str
    stage: int
    residual: float


def peaks() -> list[Peak]:
    """Return the simulated rows of the language models' table that state a peak, of any quality."""
    stated = [row for row in packaged_rows(TABLE) if row.text("mem_gb_per_gpu")]
    rows = []
    with TemporaryDirectory() as made:
        folder = ScenarioFolder(Path(made), keeps=False)
        for row in stated:
            try:
                step = folder.fitting(step_of_row(row))
            except NotPredictedError:
                continue
            scenario = folder.scenario(step)
            use = memory_use(scenario)
            assert step.memory is not None
            residual = float(np.log(step.memory / use.held.total))
            workload, gpu = scenario.workload, scenario.cluster.accelerator
            kind = (gpu.architecture, workload.precision, use.setup.stage)
            rows.append(Peak(row.text("case_id"), row.text("model"), *kind, residual))
    return rows


def residual_table(found: Sequence[Peak]) -> dict[str, Any]:
    """Return the measured traits, and quantiles for peaks like them and unlike them."""
    cases = [peak.case for peak in found]
    return {
        "peaks": len(found),
        "configurations": len(set(cases)),
        "models": sorted({peak.model for peak in found}),
        "architectures": sorted({peak.architecture for peak in found}),
        "precisions": sorted({peak.precision for peak in found}),
        "stages": sorted({peak.stage for peak in found}),
        "alike": _spread(found, cases),
        "unlike": _spread(found, [peak.architecture for peak in found]),
    }


def coverage(found: Sequence[Peak]) -> float:
    """Return the share of peaks inside their interval, with their configuration left out."""
    inside = []
    for peak in found:
        table = residual_table([other for other in found if other.case != peak.case])
        below, above = table["alike"]
        inside.append(-below[-1] <= peak.residual <= above[-1])
    return float(np.mean(inside))


def _spread(found: Sequence[Peak], names: Sequence[str]) -> Spread:
    """Return the spread of one more draw, where peaks of one name are one draw.

    So few samples do not bound the next error well: the spread is stretched by the ratio of
    Student's t to the normal distribution, as if errors were normal.
    """
    arms, draws = spread_of(np.array([peak.residual for peak in found]), names), len(set(names))
    if draws > 1:
        longer = stdtrit(draws - 1, 0.95) * np.sqrt(1 + 1 / draws) / ndtri(0.95)
        arms = (np.array(arms) * longer).round(4).tolist()
    return arms


def write() -> None:
    """Write the file."""
    content = residual_table(peaks())
    FILE.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    write()
