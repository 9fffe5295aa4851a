"""Time of NCCL's collectives on a described machine: NCCL's choice, timed by fitted constants."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dpsim.base.lazy import on_demand

if TYPE_CHECKING:
    from dpsim.network.libraries.nccl.assembly import (
        level_keys,
        machine_logs,
        prior_shift,
        shipped_constants,
    )
    from dpsim.network.libraries.nccl.cluster_machine import (
        gpus_per_node,
        machine_of,
        network_cards,
    )
    from dpsim.network.libraries.nccl.collective_model import NcclModel
    from dpsim.network.libraries.nccl.cost import BRANCHES, OPS, Picked, Work, seconds
    from dpsim.network.libraries.nccl.description import (
        describe,
        describe_system,
        dtype_bytes,
    )
    from dpsim.network.libraries.nccl.explanation import Explanation, explain
    from dpsim.network.libraries.nccl.gpus import is_amd
    from dpsim.network.libraries.nccl.machine import NVMESH, NVSWITCH, PCIE, NcclMachine, Note
    from dpsim.network.libraries.nccl.model_error import (
        beyond,
        described_as,
        family_of,
        machine_error,
    )
    from dpsim.network.libraries.nccl.neighbours import (
        NEIGHBOURS_FILE,
        Measured,
        Neighbour,
        machine_json,
        neighbours_of,
        shipped_neighbours,
        written,
    )
    from dpsim.network.libraries.nccl.network_text import node_cards
    from dpsim.network.libraries.nccl.parameters import COMMON, NAMES, OWN_ONLY, PARAMS, Param
    from dpsim.network.libraries.nccl.physical_values import Facts, facts_of, physical
    from dpsim.network.libraries.nccl.prediction import (
        modelled,
        predict,
        work_for,
    )
    from dpsim.network.libraries.nccl.selection import costs
else:
    __getattr__, __dir__ = on_demand(__name__, __file__)

__all__ = [
    "BRANCHES",
    "COMMON",
    "NAMES",
    "NEIGHBOURS_FILE",
    "NVMESH",
    "NVSWITCH",
    "OPS",
    "OWN_ONLY",
    "PARAMS",
    "PCIE",
    "Explanation",
    "Facts",
    "Measured",
    "NcclMachine",
    "NcclModel",
    "Neighbour",
    "Note",
    "Param",
    "Picked",
    "Work",
    "beyond",
    "costs",
    "describe",
    "describe_system",
    "described_as",
    "dtype_bytes",
    "explain",
    "facts_of",
    "family_of",
    "gpus_per_node",
    "is_amd",
    "level_keys",
    "machine_error",
    "machine_json",
    "machine_logs",
    "machine_of",
    "modelled",
    "neighbours_of",
    "network_cards",
    "node_cards",
    "physical",
    "predict",
    "prior_shift",
    "seconds",
    "shipped_constants",
    "shipped_neighbours",
    "work_for",
    "written",
]
