"""The outer step of groups of workers: its communication, and its cost on a GPU.

The workers of a group hold the same model, so each exchanges only its part with its replicas in the
other groups, takes the outer optimiser's step on that part, and gathers the rest inside its group.
If the group shards its model, a worker holds only that part, and nothing is gathered.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from dpsim.collectives import Groups
from dpsim.engine.calls import StagedCall, in_group, staged
from dpsim.strategy.aggregation import ELEMENT, CollectiveCall, Setting, Turns
from dpsim.topology import Mesh

if TYPE_CHECKING:
    from dpsim.engine.job_without_calls import JobWithoutCalls
    from dpsim.scenario import Scenario

# Bytes of memory traffic per parameter for the movement (two values read, one written). The outer
# step reads the movement and the state, and writes the state and the weights.
_MOVEMENT_TRAFFIC = 3 * ELEMENT


def group_collectives(scenario: Scenario, setting: Setting) -> Mapping[str, Turns]:
    """Return the models of the collectives inside groups and between them."""
    strategy = scenario.strategy
    size = strategy.sync.group_size(setting.mesh)
    inside = strategy.aggregation.collectives(replace(setting, groups=Groups(size)))
    found = {in_group(name): turns for name, turns in inside.items()}
    if size == setting.mesh.ranks:
        return found
    outer = strategy.sync.outer_step
    assert outer is not None, "groups have an outer step"
    summed = outer.compression.sums_in_flight
    across = replace(setting, groups=Groups(size, across=True), sums_in_flight=summed)
    between = strategy.aggregation.between_groups().collectives(across)
    found |= {_between_groups(name): turns for name, turns in between.items()}
    if strategy.aggregation.shards:
        return found
    gathers = replace(setting, groups=Groups(size), sums_in_flight=False)
    found[in_group("all-gather")] = strategy.aggregation.collectives(gathers)["all-gather"]
    return found


def _between_groups(name: str) -> str:
    """Return the name of the collective ``name`` when replicas in all groups run it."""
    return f"{name} between groups"


def outer_calls(job: JobWithoutCalls, fragments: tuple[int, ...]) -> Iterator[StagedCall]:
    """Yield the calls that send ``fragments`` of the model after a step, in turn."""
    strategy, mesh = job.scenario.strategy, job.cluster.mesh
    outer, size = strategy.sync.outer_step, strategy.sync.group_size(mesh)
    assert outer is not None, "fragments are an outer step's"
    groups, between = Mesh(mesh.ranks // size, 1), strategy.aggregation.between_groups()
    parts = outer.parts(job.model.trained)
    gpus = tuple(gpu for gpu, _ in job.cluster.accelerators)
    rates = np.array([gpu.memory_bandwidth.value for gpu in gpus])
    ready = job.program.updated
    for number in fragments:
        elements = parts[number].stop - parts[number].start
        part = -(-elements // size)
        call = CollectiveCall(
            f"fragment{number}",
            part * ELEMENT,
            ready,
            ready,
            payload="models",
            group="outer",
            lag=outer.overlap,
        )
        sent = staged(call, outer.compression, between, groups, gpus)
        stages = [(_between_groups(name), nbytes) for name, nbytes in sent.stages]
        if size > 1 and not strategy.aggregation.shards:
            stages.append((in_group("all-gather"), elements * ELEMENT))
        step_traffic = (1 + 2 * outer.states + 1) * ELEMENT
        # A single group sends nothing, but still takes the outer step.
        yield sent._replace(
            stages=tuple(stages) if groups.ranks > 1 else (),
            encode=sent.encode + part * _MOVEMENT_TRAFFIC / rates,
            decode=sent.decode + part * step_traffic / rates,
            takes_encoding=True,
        )
