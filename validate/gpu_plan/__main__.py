"""Measurements on borrowed GPUs, in calls of under ten minutes.

Each row is appended to DIR/rows.jsonl as it is measured. A call continues where the last one ended,
was cut off or failed. It measures the most informative items first, and prints the remaining ones.
It needs no network. Each ends with DIR/profile.json, DIR/record.json.gz (to be kept), DIR/table.md,
DIR/page.html, and a table on stdout: measured steps, communication and memory beside predictions by
specification and by the profile.

    python -m validate.gpu_plan -o DIR                             # one GPU, or all of this node
    torchrun --nnodes 2 --nproc-per-node 8 ... -m validate.gpu_plan -o DIR       # several nodes
    python -m validate.gpu_plan -o DIR --device cpu --small        # the same on a processor
"""

from __future__ import annotations

import argparse
import gzip
import json
import sys
from collections.abc import Sequence
from pathlib import Path

from dpsim.base.errors import DpsimError
from dpsim.base.terminal import narrate, show, write_whole
from validate.gpu_plan.plan import PARTS, Plan
from validate.gpu_plan.report import lines_of, markdown, page, table
from validate.gpu_plan.sizes import GPU, SMALL
from validate.microbench.machine import provenance
from validate.node import Item, Rows, carry, here, profile_in, scenario_here
from validate.ranks.orders import orders_here
from validate.ranks.processes import ranks_of_launcher

_MINUTES = 9.5
_SMALL_RANKS = 2  # processes in place of a node's GPUs


def write_report(plan: Plan, items: Sequence[Item], rows: Rows) -> None:
    """Write all results of the rows, and show the table."""
    try:
        scenario = scenario_here(plan.node, plan.ranks)
        profile = profile_in(rows, plan.profile_items(), scenario, "plan")
        write_whole(plan.profile, profile.to_json())
    except DpsimError as error:
        narrate(f"no profile: {error}")
    lines = list(lines_of(plan, items, rows))
    title = f"{plan.ranks} x {plan.node.name}"
    record = {"of": title, "lines": [each.record() for each in lines], "provenance": provenance()}
    write_whole(plan.folder / "record.json.gz", gzip.compress(json.dumps(record).encode(), mtime=0))
    write_whole(plan.folder / "table.md", markdown(lines))
    write_whole(plan.folder / "page.html", page(title, lines))
    show(table(lines))


def main(arguments: Sequence[str]) -> None:
    """Parse arguments, measure, report."""
    parser = argparse.ArgumentParser(
        "validate.gpu_plan",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("-o", "--output", type=Path, required=True, help="folder for the records")
    parser.add_argument("--device", default="cuda", choices=("cpu", "cuda"))
    parser.add_argument("--small", action="store_true", help="sizes for a processor")
    parser.add_argument("--minutes", type=float, default=_MINUTES, help="time for this call")
    parser.add_argument(
        "--part",
        action="append",
        choices=PARTS,
        help=(
            "items for one device, one node or several nodes; if left out, all that can run here"
        ),
    )
    options = parser.parse_args(arguments)
    node = here(options.device)
    orders = orders_here()
    if orders is None:
        return
    options.output.mkdir(parents=True, exist_ok=True)
    usual = node.count if node.kind == "cuda" else _SMALL_RANKS
    plan = Plan(options.output, node, ranks_of_launcher() or usual, SMALL if options.small else GPU)
    items = plan.items(tuple(options.part or PARTS))
    rows = Rows(options.output / "rows.jsonl")
    try:
        left = carry(
            items, rows, orders, device=node.kind, minutes=options.minutes, progress=_announce
        )
    finally:
        orders.close()
    write_report(plan, items, rows)
    if left:
        seconds = sum(item.seconds for item in left)
        narrate(f"left over, about {seconds / 60:.0f} minutes: {'; '.join(i.name for i in left)}")


def _announce(name: str, done: int, total: int) -> None:
    """Print the current item: launchers' logs have no progress bars."""
    narrate(f"{done + 1} of {total}: {name}")


if __name__ == "__main__":
    try:
        main(sys.argv[1:])
    except DpsimError as problem:
        narrate(f"gpu_plan: {problem}")
        sys.exit(problem.status)
    except KeyboardInterrupt:
        narrate("gpu_plan: interrupted; the same command goes on there")
        sys.exit(130)
