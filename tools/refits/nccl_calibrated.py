"""The errors of NCCL curves that are calibrated by every fourth of their sizes.

``python -m tools.refits.nccl_calibrated`` (about a minute) prints them, mean over machines, for one
node and for several. It writes ``validate/published/nccl/calibrated_residuals.json``: the spread of
ln(measured / predicted) of the held-out sizes, for the next machine, and the coverage of machines
that are left out of it.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np

from dpsim.base.terminal import show
from dpsim.base.uncertainty import Spread
from tools.refits.nccl_refit import training_cases
from tools.refits.residual_quantiles import spread_of
from validate.published.nccl.regimes import calibrated
from validate.published.nccl.scores import CALIBRATED_FILE, MIB, Score, mean_over_machines, scored
from validate.published.nccl.sources import constants, neighbours


def main() -> None:
    """Calibrate each machine by every fourth of its sizes, with constants fitted without it."""
    scores = _scores()
    for heading, several in (("one node", False), ("several nodes", True)):
        rows = [
            score for score in scores if score.counts and (score.case.machine.nodes > 1) == several
        ]
        machines = len({score.case.machine_name for score in rows})
        show(f"{heading}, {machines} machines: {_error(rows)}")
    path = Path(str(files("validate.published.nccl"))) / CALIBRATED_FILE
    path.write_text(json.dumps(residuals(scores), indent=1) + "\n", encoding="utf-8")


def residuals(scores: Sequence[Score]) -> dict[str, Any]:
    """Return the spread for one node and for several, below 1 MiB and from 1 MiB on."""
    families = []
    for is_one_node in (True, False):
        for large in (False, True):
            rows = [
                score
                for score in scores
                if score.counts
                and (score.case.machine.nodes == 1, score.nbytes >= MIB) == (is_one_node, large)
            ]
            families.append(
                {
                    "is_one_node": is_one_node,
                    "from_1MiB": large,
                    "machines": len(_machines(rows)),
                    "coverage": round(_coverage(rows), 3),
                    "spread": _spread(rows),
                }
            )
    return {"families": families}


def _spread(rows: Sequence[Score]) -> Spread:
    residual = np.array([np.log(row.measured / row.predicted) for row in rows])
    return spread_of(residual, [row.case.machine_name for row in rows])


def _coverage(rows: Sequence[Score]) -> float:
    """Return the mean over machines of the share of rows inside, each machine left out."""
    shares = []
    for machine in sorted(_machines(rows)):
        below, above = _spread([row for row in rows if row.case.machine_name != machine])
        own = [
            np.log(row.measured / row.predicted) for row in rows if row.case.machine_name == machine
        ]
        shares.append(np.mean([-below[-1] <= each <= above[-1] for each in own]))
    return float(np.mean(shares))


def _machines(rows: Sequence[Score]) -> set[str]:
    return {row.case.machine_name for row in rows}


def _scores() -> list[Score]:
    cases = training_cases()
    scores = []
    for machine in sorted({case.machine_name for case in cases}):
        own = [case for case in cases if case.machine_name == machine]
        known, _ = constants(machine)
        for predicted in calibrated(own, known, neighbours(machine)):
            scores += scored(predicted, "left out")
    return scores


def _error(rows: Sequence[Score]) -> str:
    """Return the error over all sizes / from 1 MiB."""
    large = [row for row in rows if row.nbytes >= MIB]
    return f"{mean_over_machines(rows):.1%} / {mean_over_machines(large):.1%}"


if __name__ == "__main__":
    main()
