"""One command's work: measure this node, and make a profile of what was measured."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from dpsim.hardware import CalibrationProfile
from dpsim.scenario import Scenario
from validate.emulate import Case
from validate.microbench import provenance
from validate.node.hardware import Here, as_here, here
from validate.node.measure import MODELS_OF, Progress, measured_runs
from validate.node.profile import profile_of
from validate.ranks.processes import ranks_of_launcher

_RANKS_ON_A_PROCESSOR = 4


def node_profile(
    *,
    device: str = "auto",
    backend: str = "auto",
    ranks: int | None = None,
    minutes: float = 10.0,
    models: Sequence[str] = (),
    name: str = "node",
    progress: Progress = lambda what, done, total: None,
) -> CalibrationProfile | None:
    """The profile of this node; under a launcher None but on rank 0. Raises DpsimError."""
    found = here(device)
    usual = found.count if found.kind == "cuda" else _RANKS_ON_A_PROCESSOR
    count = ranks_of_launcher() or ranks or usual
    chosen = models or MODELS_OF[found.kind]
    runs = list(measured_runs(found, count, backend, minutes, chosen, progress))
    if int(os.environ.get("RANK", "0")):
        return None
    return profile_of(runs, scenario_here(found, count), name, provenance())


def scenario_here(node: Here, ranks: int) -> Scenario:
    """A scenario on the hardware that is here: what the measured is compared with."""
    text = {
        "name": "here",
        "cluster": {"nodes": ranks, "node": "testbed-host"},
        "workload": {"model": "resnet18", "batch_per_gpu": 1},
    }
    with TemporaryDirectory() as folder:
        file = Path(folder) / "here.yaml"
        file.write_text(json.dumps(text))
        return as_here(Case(str(file)), node, ranks_of_launcher()).scenario()
