"""Print the errors of the catalogue's nodes against published tables.

Run as ``python -m tools.catalogue_errors``: the table of docs/accuracy.md, then excluded machines.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path

from validate.published.nccl.catalogue_nodes import NodeCase, families, node_cases
from validate.published.nccl.scores import Score, summary
from validate.published.nccl.table import kind_of

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
    found = families(cases)
    print("| machines | n | rows | median | over machines: all / 1 MiB+ | worst, 1 MiB+ |")
    print("| --- | --- | --- | --- | --- | --- |")
    for family in [name for name in found if "MiB" not in name]:
        of_all, large = summary(found[family]), found[f"{family}, from 1 MiB"]
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
