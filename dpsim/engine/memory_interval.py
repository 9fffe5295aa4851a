"""How far a peak of memory may be off: what published peaks are over what is predicted.

Few were published, of one model under one kind of sharding. What has other traits is further off
than they show, so that of it one more generation of GPUs is the draw, not one more configuration.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from dpsim.base.doubt import Doubt
from dpsim.base.shipped import shipped_json
from dpsim.workload import STAGE_NAMES

if TYPE_CHECKING:
    from dpsim.engine.memory import MemoryUse


def memory_doubt(use: MemoryUse) -> Doubt:
    """The error of the bytes that ``use`` takes in all, of which no part has one of its own."""
    table = shipped_json("dpsim.engine", "memory_residuals.json")
    apart = tuple(_unlike_the_measured(use, table))
    basis = f"memory: {table['peaks']} published peaks of {', '.join(table['models'])}, of "
    if apart:
        basis += f"{len(table['architectures'])} generations of GPUs"
    else:
        basis += f"{table['configurations']} configurations"
    return Doubt(basis, table["quantiles"], table["unlike" if apart else "alike"], apart)


def _unlike_the_measured(use: MemoryUse, table: Mapping[str, Any]) -> list[str]:
    """What of ``use`` no measured peak had, a sentence each."""
    setup = use.setup
    stage = f"{setup.stage} ({STAGE_NAMES[setup.stage]})"
    measured = {
        f"of {use.model.name}": use.model.name in table["models"],
        f"on {use.gpu} or its generation": use.architecture in table["architectures"],
        f"in {setup.precision}": setup.precision in table["precisions"],
        f"at sharding stage {stage}": setup.stage in table["stages"],
    }
    return [f"no peak {what} was measured" for what, known in measured.items() if not known]
