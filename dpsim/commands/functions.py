"""The commands as functions with typed results, if they take more than one call.

`dpsim.compare`, `dpsim.scale`, `dpsim.tune` and `dpsim.sweep` are the studies themselves.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from dpsim.scenario import Scenario, load_scenario

if TYPE_CHECKING:
    from dpsim.engine import MemoryUse
    from dpsim.studies.advise import Advice
    from dpsim.studies.collective import CollectiveTimes
    from dpsim.studies.explain import Explanation


def explain(
    scenario: Scenario | str | os.PathLike[str],
    *,
    overrides: Iterable[str] = (),
    progress: Callable[[int], None] = lambda done: None,
    uncertainty: bool = False,
) -> Explanation:
    """Explain what limits a scenario, or the one in a file: its critical path and every knob.

    With ``uncertainty`` also which uncertain input determines the interval of the step.
    ``overrides``: ``key=value`` for a file. ``progress`` gets the number of knobs turned so far.
    Raises ScenarioError for an invalid file, DpsimError as `dpsim.simulate` does.
    """
    from dpsim.studies.explain import explain as explained

    return explained(_scenario(scenario, overrides), progress, uncertainty=uncertainty)


def memory(
    scenario: Scenario | str | os.PathLike[str], *, overrides: Iterable[str] = ()
) -> MemoryUse:
    """Return the memory use of a scenario, or the one in a file, and whether it fits.

    Raises ScenarioError for an invalid file.
    """
    from dpsim.engine import memory_use

    return memory_use(_scenario(scenario, overrides))


def collective(
    cluster: str | os.PathLike[str],
    sizes: Iterable[int | str] = ("1 MiB",),
    *,
    nodes: int | None = None,
    algorithms: Iterable[str] | None = None,
    operation: str = "all-reduce",
    library: str | None = None,
) -> CollectiveTimes:
    """Time one collective at each size, on a scenario's cluster or on nodes by name.

    ``sizes``: bytes of a rank's vector, as numbers or text (``"1 MiB"``, nccl-tests' ``"1M"``).
    ``nodes`` replaces the file's number of nodes; for a node's name it is 1 by default.
    ``algorithms``: by default the library's choice. ``library``: by default the machines' (NCCL on
    NVIDIA GPUs), or the ideal one if algorithms are named. Raises DpsimError for unknown names.
    """
    from dpsim.network import MessageCosts
    from dpsim.studies.collective import collective_times, named_cluster, parse_size

    network, gamma = named_cluster(str(cluster), nodes)
    nbytes = [parse_size(size) if isinstance(size, str) else size for size in sizes]
    costs = MessageCosts(0.0, gamma)
    return collective_times(network, nbytes, algorithms, library, operation=operation, costs=costs)


def advise(trace: str | os.PathLike[str]) -> Advice:
    """Recommend buckets, or sharding, for the step in a trace of PyTorch's profiler.

    Raises DpsimError for a file that is not such a trace, or has no collectives.
    """
    from dpsim.imports.kineto import profile_with_parts
    from dpsim.studies.advise import StepParts
    from dpsim.studies.advise import advise as advise_on_profile

    # Advice is for the step as traced, whatever its number of samples.
    profile, parts = profile_with_parts(Path(trace))
    return advise_on_profile(profile, None if parts is None else StepParts(*parts))


def _scenario(scenario: Scenario | str | os.PathLike[str], overrides: Iterable[str]) -> Scenario:
    if not isinstance(scenario, Scenario):
        return load_scenario(scenario, overrides)
    changed = list(overrides)
    if changed:
        raise TypeError(f"overrides are for a file, but got a Scenario and {changed}")
    return scenario
