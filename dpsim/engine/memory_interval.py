"""How far a peak of memory may be off: what published peaks are over what is predicted.

Few were published, of one model under one kind of sharding. What has other traits is further off
than they show, so that of it one more generation of GPUs is the draw, not one more configuration.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dpsim.base.doubt import Doubt
from dpsim.base.shipped import shipped_json
from dpsim.workload import STAGE_NAMES, Setup


def memory_doubt(setup: Setup, model: str, gpu: str, architecture: str) -> Doubt:
    """Return the error of the bytes that a model takes in all; no part has one of its own."""
    table = shipped_json("dpsim.engine", "memory_residuals.json")
    apart = tuple(_unlike_the_measured(table, setup, model, gpu, architecture))
    basis = f"memory: {table['peaks']} published peaks of {', '.join(table['models'])}, of "
    if apart:
        basis += f"{len(table['architectures'])} generations of GPUs"
    else:
        basis += f"{table['configurations']} configurations"
    return Doubt(basis, table["unlike" if apart else "alike"], apart, source="memory")


def _unlike_the_measured(
    table: Mapping[str, Any], setup: Setup, model: str, gpu: str, architecture: str
) -> list[str]:
    """Return what no measured peak had, a sentence each."""
    stage = f"{setup.stage} ({STAGE_NAMES[setup.stage]})"
    measured = {
        f"of {model}": model in table["models"],
        f"on {gpu} or its generation": architecture in table["architectures"],
        f"in {setup.precision}": setup.precision in table["precisions"],
        f"at sharding stage {stage}": setup.stage in table["stages"],
    }
    return [f"no peak {what} was measured" for what, known in measured.items() if not known]
