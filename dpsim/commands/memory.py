"""``dpsim memory``: the memory on each GPU, whether it fits, and advice if it does not."""

from __future__ import annotations

from dataclasses import asdict

from dpsim.base.terminal import narrate, show, show_answer
from dpsim.commands.options import File, Json, Sets


def memory(
    file: File,
    set_: Sets = None,
    as_json: Json = False,
) -> None:
    """Show the memory on a GPU, and whether the scenario fits.

    Lists the parts, the largest batch, sharding stages and the smallest remedy.

    Example: dpsim memory scenarios/quickstart.yaml --set workload.batch_per_gpu=256
    """
    from dpsim.engine import learners_by_batch, memory_use
    from dpsim.scenario import load_scenario

    scenario = load_scenario(file, set_ or ())
    use = memory_use(scenario)
    learners = learners_by_batch(scenario, use)
    sample = scenario.workload.sample_of(use.model)
    if as_json:
        rows = [asdict(row) for row in learners]
        show_answer("memory", name=scenario.name, **sample, **use.report(), learners=rows)
        return
    from dpsim.report.text.memory import (
        learners_table,
        memory_notes,
        parts_table,
        sample_notes,
        stages_table,
    )

    for note in use.model.notes:
        narrate(f"note: {note}")
    show(parts_table(scenario.name, use), "", *memory_notes(use), *sample_notes(sample))
    if not use.is_partial:
        show("", stages_table(use))
    if learners:
        show("", learners_table(learners))
