"""Measures a node for its profile: one run of microbenchmarks after another, within the minutes."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Sequence
from itertools import product
from typing import Any

from dpsim.base.errors import DpsimError
from dpsim.base.terminal import narrate
from validate.microbench import RunFile, Settings, here, launched
from validate.node.hardware import Here
from validate.ranks.launch import loopback
from validate.ranks.processes import meet, place_from_environment

Progress = Callable[[str, int, int], None]
_OPERATIONS = ("all-reduce", "reduce-scatter", "all-gather", "broadcast", "all-to-all")
# Up to which bytes collectives and copies are measured, and what models train on, by device.
_LARGEST = {"cpu": 2**24, "cuda": 2**30}
_BATCHES = {"cpu": (2, 4, 8, 16), "cuda": (4, 8, 16, 32)}
MODELS_OF = {
    "cpu": ("small-cnn", "small-transformer"),
    "cuda": ("resnet50", "bert-large", "gpt2", "llama3.2-1b"),
}
_PRECISIONS = {"cpu": ("fp32",), "cuda": ("fp32", "bf16")}
_PATIENCE_S = 300.0
_START_S = 10.0  # that a run takes before it measures anything


def measured_runs(
    node: Here,
    ranks: int,
    backend: str,
    minutes: float,
    models: Sequence[str],
    progress: Progress,
) -> Iterator[RunFile]:
    """The runs that there is time for, the most useful first.

    Under a launcher its ranks measure, and rank 0 has the answers and the clock. A run that fails
    is told of, and the next follows.
    """
    end = time.monotonic() + 60 * minutes
    agreed = _by_rank_0() if "RANK" in os.environ else _by_itself
    for number, (settings, count) in enumerate(_plan(node, ranks, backend, models)):
        left = end - time.monotonic()
        if not agreed(f"node/{number}", left >= _START_S):
            if int(os.environ.get("RANK", "0")) == 0:
                narrate(f"no time is left for {', '.join(settings.what)} by {count} ranks")
            continue
        try:
            run = _run(settings, count, progress, left)
        except DpsimError as error:
            narrate(f"{', '.join(settings.what)} by {count} ranks: {error}")
            continue
        if run is not None:
            if run.failed:
                narrate(run.failed)
            for what, why in run.not_run.items():
                narrate(f"{what}: not measured: {why}")
            yield run


def _by_itself(name: str, mine: bool) -> bool:
    return mine


def _by_rank_0() -> Callable[[str, bool], bool]:
    """What rank 0 says of a question, which all ranks ask: all must take the same runs."""
    place = place_from_environment()
    store = meet(place, _PATIENCE_S)

    def agreed(name: str, mine: bool) -> bool:
        if place.rank == 0:
            store.set(name, "yes" if mine else "no")
        return bool(store.get(name) == b"yes")

    return agreed


def _run(settings: Settings, ranks: int, progress: Progress, timeout_s: float) -> RunFile | None:
    if "RANK" in os.environ:
        return here(settings, progress)
    return launched(settings, loopback(ranks), progress, timeout=timeout_s)


def _plan(
    node: Here, ranks: int, backend: str, models: Sequence[str]
) -> Iterator[tuple[Settings, int]]:
    """Settings and ranks of each run: collectives, what all models need, then single models.

    Collectives by all ranks, and by two of them where they are more: from both it is known how they
    grow with ranks. The same for how far ranks' computing spreads. Under a launcher its ranks are
    what there is.
    """
    common: dict[str, Any] = {
        "device": node.kind,
        "backend": backend,
        "at_once": True,
        # Many long messages in a row over a slow network take minutes, and none is lost.
        "timeout": _PATIENCE_S,
    }
    largest = _LARGEST[node.kind]
    collectives = Settings(
        what=("collectives",),
        operations=_OPERATIONS,
        begin=1024,
        end=largest,
        factor=4,
        iterations=10,
        **common,
    )
    rest = Settings(
        what=("products", "copies", "point-to-point", "optimizer", "codecs"),
        begin=2**16,
        end=min(largest, 2**24),
        factor=16,
        iterations=5,
        **common,
    )
    counts = [ranks] if "RANK" in os.environ else sorted({min(2, ranks), ranks})
    # One rank alone has nobody to send to.
    yield from ((collectives.checked(), count) for count in counts if count > 1)
    yield rest.checked(), ranks
    for model, precision, count in product(models, _PRECISIONS[node.kind], reversed(counts)):
        steps = Settings(
            # All ranks say what layers take; fewer at once, by how much they are faster.
            what=("layers", "spread") if count == ranks else ("spread",),
            model=model,
            precision=precision,
            batch_sizes=_BATCHES[node.kind],
            iterations=8,
            **common,
        )
        yield steps.checked(), count
