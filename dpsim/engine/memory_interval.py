"""Error of the predicted memory peak, from published peaks over predicted ones.

Few peaks were published, of one model with one kind of sharding. Predictions with other traits err
more than these show, so for them a draw is a generation of GPUs instead of a configuration.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dpsim.base.doubt import Doubt
from dpsim.base.shipped import shipped_json
from dpsim.workload import STAGE_NAMES, Setup


def memory_doubt(setup: Setup, model: str, gpu: str, architecture: str) -> Doubt:
    """Return the error of the total bytes that a model takes; parts have no error of their own."""
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
    """Return the traits that no measured peak had, a sentence each."""
    stage = f"{setup.stage} ({STAGE_NAMES[setup.stage]})"
    measured = {
        f"of {model}": model in table["models"],
        f"on {gpu} or its generation": architecture in table["architectures"],
        f"in {setup.precision}": setup.precision in table["precisions"],
        f"at sharding stage {stage}": setup.stage in table["stages"],
    }
    return [f"no peak {what} was measured" for what, known in measured.items() if not known]
