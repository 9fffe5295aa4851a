"""Print the errors of the catalogue's nodes against published tables.

Run as ``python -m tools.catalogue_errors``: the table of docs/accuracy.md, then excluded machines.

Elsewhere a machine is predicted from the description in its table, and without its rows. Here it is
predicted by its name, as ``dpsim collective`` predicts it, with the shipped constants, which have
mostly been fitted on it: this reveals nodes that the catalogue describes wrongly.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from dpsim.base.arrays import FloatArray
from dpsim.hardware import nodes
from dpsim.network import automatic_library
from dpsim.network.libraries.nccl import NVMESH, NVSWITCH, PCIE, NcclMachine, facts_of, machine_of
from dpsim.studies.collective import collective_rows
from dpsim.topology import Cluster, ClusterConfig, build_cluster
from validate.published.nccl.regimes import Predicted
from validate.published.nccl.scores import MIB, Score, scored, summary
from validate.published.nccl.table import Case, Kind, kind_of, read_table
from validate.published.tables.packaged import constants_file

# NCCL's operations by dpsim's names. One rank's message to another is not a collective.
_OPERATIONS = {
    "all_reduce": "all-reduce",
    "all_gather": "all-gather",
    "reduce_scatter": "reduce-scatter",
    "alltoall": "all-to-all",
    "broadcast": "broadcast",
    "reduce": "reduce",
}
_INSIDE = {NVSWITCH: "NVSwitch", NVMESH: "NVLink mesh", PCIE: "PCIe"}
_OTHER_CARDS = 0.05  # relative: cards whose rates differ by less are taken to be the same


@dataclass(frozen=True, slots=True)
class NodeCase:
    """The scored rows of a curve measured on a ``node`` of the catalogue.

    ``apart`` is the reason why the curve does not represent the catalogue's node; None if it does.
    """

    node: str
    family: str
    scores: list[Score]
    apart: str | None


def node_cases(path: Path, kind: Kind) -> list[NodeCase]:
    """Predict the curves of a table that were measured on a node of the catalogue."""
    predictions = []
    for case in read_table(path, kind):
        name = node_of(case)
        if name is None or case.op not in _OPERATIONS:
            continue
        node, machine = nodes()[name], case.machine
        if machine.gpus_per_node > node.gpus:
            continue
        cluster = build_cluster(
            ClusterConfig(nodes=machine.nodes, node=node, gpus_per_node=machine.gpus_per_node)
        )
        known = machine_of(cluster)
        seconds = _predict(cluster, case)
        predicted = Predicted(case, seconds, np.ones(len(seconds), dtype=bool))
        scores = scored(predicted, f"shipped, of {name}")
        predictions.append(NodeCase(name, _family(known), scores, _apart(case, known)))
    return predictions


def families(cases: Iterable[NodeCase]) -> dict[str, list[Score]]:
    """Group the counted rows by family of machines, and again those from 1 MiB on."""
    scores_of: dict[str, list[Score]] = defaultdict(list)
    for case in cases:
        if case.apart is None:
            scores_of[case.family] += case.scores
    names = sorted(scores_of)
    large = {
        f"{name}, from 1 MiB": [score for score in scores_of[name] if score.nbytes >= MIB]
        for name in names
    }
    return {name: scores_of[name] for name in names} | large


def node_of(case: Case) -> str | None:
    """Return the catalogue's node that a case was measured on, by its machine's name."""
    identity = case.identity.get("case_id", case.machine_name)
    listed = constants_file("nccl/catalogue_names.yaml")
    if identity in listed:
        return str(listed[identity])
    named = nodes().named_in(case.machine_name)
    return named[0] if named else None


def _predict(cluster: Cluster, case: Case) -> FloatArray:
    operation = _OPERATIONS[case.op]
    rows = collective_rows(
        cluster,
        ["auto"],
        [int(size) for size in case.nbytes],
        operation=operation,
        itemsize=case.element_bytes,
        library=automatic_library("auto", cluster, operation=operation).library,
    )
    return np.array([row.time_s for row in rows])


def _family(machine: NcclMachine) -> str:
    inside = _INSIDE.get(machine.intra, "xGMI")
    return f"{inside}, {'one node' if machine.nodes == 1 else 'several nodes'}"


def _apart(case: Case, node: NcclMachine) -> str | None:
    """Return how a case differs from the catalogue's node or the defaults; None if not at all."""
    machine = case.machine
    cards = machine.nic_rate if machine.nodes > 1 else 0.0
    reasons = {
        f"quality: {case.quality}": case.quality != "ok",
        f"GPU: {machine.gpu}": machine.gpu != node.gpu,
        f"cards: {machine.transport} of {cards / 1e9:g} GB/s": machine.transport != node.transport
        or abs(cards - node.nic_rate) > _OTHER_CARDS * node.nic_rate,
        f"started by {machine.launch}": machine.launch != "default",
        f"NCCL {machine.nccl_version}": bool(facts_of([machine]).old.any()),
        "algorithm or protocol forced": bool(machine.forced_algorithm or machine.forced_protocol),
    }
    return next((reason for reason, holds in reasons.items() if holds), None)


DATA = Path(__file__).parents[1] / "validate" / "published" / "data"
TABLES = ("nccl_tests.csv", "nccl_tests_2.csv", "nccl_single_node.csv", "vtrain_allreduce.csv")


def all_cases() -> list[NodeCase]:
    """Return the curves of all tables that match a node of the catalogue."""
    return [case for name in TABLES for case in node_cases(DATA / name, kind_of(DATA / name))]


def worst_machine(scores: Sequence[Score]) -> tuple[str, float]:
    """Return the machine with the largest mean error, and that error."""
    machines: dict[str, list[float]] = defaultdict(list)
    for score in scores:
        machines[score.case.machine_name].append(score.ape)
    means = {name: sum(errors) / len(errors) for name, errors in machines.items()}
    return max(means.items(), key=lambda item: item[1])


def main() -> None:
    """Print the errors by family, and the machines that do not count, with reasons."""
    cases = all_cases()
    scores_of = families(cases)
    print("| machines | n | rows | median | over machines: all / 1 MiB+ | worst, 1 MiB+ |")
    print("| --- | --- | --- | --- | --- | --- |")
    for family in [name for name in scores_of if "MiB" not in name]:
        of_all, large = summary(scores_of[family]), scores_of[f"{family}, from 1 MiB"]
        name, worst = worst_machine(large)
        print(
            f"| {family} | {of_all['machines']} | {of_all['n']:,} | {of_all['median_ape']:.1%} | "
            f"{of_all['mean_over_machines']:.1%} / {summary(large)['mean_over_machines']:.1%} | "
            f"{name}: {worst:.1%} |"
        )
    apart: dict[tuple[str, str, str], list[float]] = defaultdict(list)
    for case in cases:
        if case.apart is not None:
            name = case.scores[0].case.machine_name
            apart[case.node, name, case.apart] += [score.ape for score in case.scores]
    for (node, name, why), errors in apart.items():
        print(f"apart: {node}: {name}: {why}: {sum(errors) / len(errors):.1%}")


if __name__ == "__main__":
    main()
