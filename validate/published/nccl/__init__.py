"""Published times of collectives compared with the models of NCCL."""

from validate.published.nccl.catalogue_nodes import NodeCase, families, node_cases
from validate.published.nccl.joint_fit import (
    fit_joint,
    fit_without,
    fit_without_generation,
    label_graphs,
)
from validate.published.nccl.map_fit import MACHINE_KEY, Slot, build, standard_errors
from validate.published.nccl.own_curve import by_other_sizes
from validate.published.nccl.reference import Reference, compare
from validate.published.nccl.regimes import calibrated, specification
from validate.published.nccl.scores import (
    CALIBRATED_FILE,
    MIB,
    Score,
    calibrated_doubt,
    mean_over_machines,
    scored,
    summary,
    transport_group,
)
from validate.published.nccl.sources import LEFT_OUT_FILE, Shipped, measured_inside
from validate.published.nccl.table import KINDS, Case, Kind, kind_of, read_table
from validate.published.nccl.twins import beside_twins

__all__ = [
    "CALIBRATED_FILE",
    "KINDS",
    "LEFT_OUT_FILE",
    "MACHINE_KEY",
    "MIB",
    "Case",
    "Kind",
    "NodeCase",
    "Reference",
    "Score",
    "Shipped",
    "Slot",
    "beside_twins",
    "build",
    "by_other_sizes",
    "calibrated",
    "calibrated_doubt",
    "compare",
    "families",
    "fit_joint",
    "fit_without",
    "fit_without_generation",
    "kind_of",
    "label_graphs",
    "mean_over_machines",
    "measured_inside",
    "node_cases",
    "read_table",
    "scored",
    "specification",
    "standard_errors",
    "summary",
    "transport_group",
]
