"""Measures this node and makes a profile, for one command."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from dpsim.base.errors import DpsimError
from dpsim.base.terminal import narrate
from dpsim.hardware import CalibrationProfile
from dpsim.scenario import Scenario
from validate.microbench.machine import machine, provenance
from validate.microbench.run_file import RunFile
from validate.node.hardware import Here, cluster_here, here
from validate.node.items import Item
from validate.node.measure import MODELS_OF, items_of
from validate.node.plan_runner import Progress, carry
from validate.node.profile import profile_of
from validate.node.rows import Attempt, Rows
from validate.ranks.orders import orders_here
from validate.ranks.processes import ranks_of_launcher

_RANKS_ON_A_PROCESSOR = 4


@dataclass(frozen=True, slots=True)
class NodePlan:
    """The plan of `node_profile` here: ``items`` on ``node``, which ``scenario`` describes."""

    node: Here
    scenario: Scenario
    items: tuple[Item, ...]


def node_plan(
    device: str = "auto",
    backend: str = "auto",
    ranks: int | None = None,
    models: Sequence[str] = (),
) -> NodePlan:
    """Return the plan for this node. Raises DpsimError for one that cannot be measured."""
    found = here(device)
    usual = found.count if found.kind == "cuda" else _RANKS_ON_A_PROCESSOR
    count = ranks_of_launcher() or ranks or usual
    scenario = scenario_here(found, count)
    items = items_of(found, scenario, count, backend, models or MODELS_OF[found.kind])
    return NodePlan(found, scenario, tuple(items))


def node_profile(
    rows: Path,
    *,
    device: str = "auto",
    backend: str = "auto",
    ranks: int | None = None,
    minutes: float = 10.0,
    models: Sequence[str] = (),
    progress: Progress = lambda what, done, total: None,
) -> CalibrationProfile | None:
    """Return the profile of this node; under a launcher None except on rank 0.

    Measurements go to the file ``rows``, from which a second call continues. Raises DpsimError.
    """
    plan = node_plan(device, backend, ranks, models)
    orders = orders_here()
    if orders is None:
        return None
    measured = Rows(rows)
    _check_machine(measured)
    try:
        rest = carry(
            plan.items,
            measured,
            orders,
            device=plan.node.kind,
            minutes=minutes,
            # All items advance the same progress bar.
            progress=lambda name, done, total: progress("measurements", done, total),
        )
    finally:
        orders.close()
    if rest:
        seconds = sum(item.seconds for item in rest)
        narrate(
            f"left over, about {seconds:.0f} s: {'; '.join(item.name for item in rest)}. The same "
            f"command goes on there, by {rows}"
        )
    return profile_in(measured, plan.items, plan.scenario, "node")


def profile_in(
    rows: Rows, items: Sequence[Item], scenario: Scenario, name: str
) -> CalibrationProfile:
    """Return the profile from the ``rows`` of ``items``. Raises DpsimError if there are too few."""
    tried = [
        (item, attempt)
        for item in items
        if (attempt := rows.best(item.name, item.identity)) is not None
    ]
    runs = list(_runs(tried))
    if not runs:
        raise DpsimError("a profile must have measurements, but there are none: give it more time")
    notes = [*dict.fromkeys(note for _, found in tried for note in found.notes)]
    for note in notes:
        narrate(note)
    made = {**provenance(), **runs[0].provenance}
    if notes:
        made["disturbed"] = "; ".join(notes)
    carried = [
        (item, found)
        for item, found in tried
        if item.scenario is not None and found.ended == "done"
    ]
    return profile_of(runs, scenario, name, made, carried)


def _check_machine(rows: Rows) -> None:
    """Raise DpsimError for rows of another machine."""
    rows.refresh()
    ours = machine()
    for part in ("cpu", "gpus"):
        theirs = rows.world.get("machine", ours)[part]
        if theirs != ours[part]:
            raise DpsimError(
                f"{rows.path}: must be of this machine, where {part} is {ours[part]}, but got "
                f"{theirs}: remove it, or write to another file"
            )


def _runs(tried: Sequence[tuple[Item, Attempt]]) -> Iterator[RunFile]:
    for item, attempt in tried:
        if item.settings is None or not attempt.rows:
            continue
        for row in attempt.rows:
            if "not_run" in row:
                narrate(f"{item.name}: {row['what']}: not measured: {row['not_run']}")
        yield RunFile(
            what=item.settings.what,
            settings=item.settings,
            rows=tuple(row for row in attempt.rows if "not_run" not in row),
            failed=attempt.why or None,
            **attempt.world,
        )


def scenario_here(node: Here, ranks: int) -> Scenario:
    """Return a scenario on the hardware of this node, to compare measurements with."""
    text = {
        "name": "here",
        "cluster": cluster_here(node, ranks),
        "workload": {"model": "resnet18", "batch_per_gpu": 1},
    }
    return Scenario.model_validate(text)
