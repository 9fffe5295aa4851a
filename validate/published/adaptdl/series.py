"""Which series of a cluster's table no data-parallel step can explain.

A series is the rows of one model from one file. What a step takes beyond one GPU's is the network,
which moves the same bytes whatever the batch, and neighbours on the host.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from statistics import median

from validate.published.tables import Row, gathered

MOST_GROWTH = 1.0
CONTRADICTORY = (
    "its series takes longer beside one GPU the larger the batch, by more than one GPU's whole "
    "step: no network does that"
)


def contradictory(rows: Sequence[Row]) -> frozenset[int]:
    """Lines of series whose time beyond one GPU's grows with the batch by more than its step.

    The growth is from a placement's smallest batch to its largest, the median over placements
    counts. Series whose model has no row on one GPU are never among them.
    """
    found: set[int] = set()
    for of_model in gathered(rows, ("cluster", "model")).values():
        alone = [row for row in of_model if row.count("gpus") == 1]
        one = {
            batch: median(_step(row) for row in same) for batch, same in _by_batch(alone).items()
        }
        several = [row for row in of_model if row.count("gpus") > 1]
        for series in gathered(several, ("file",)).values():
            growths = list(_growths(series, one))
            # Rows on one GPU stay: the contradiction is in what comes beyond them.
            if growths and median(growths) > MOST_GROWTH:
                found |= {row.line for row in series}
    return frozenset(found)


def _growths(series: Sequence[Row], one: Mapping[float, float]) -> Iterator[float]:
    """Of each placement, by how much of one GPU's step its time beyond that grows."""
    # Only batches that ran on one GPU too have a time beyond it.
    usable = [row for row in series if row.number("local_bsz") in one]
    for same in gathered(usable, ("placement", "nodes", "gpus")).values():
        by_batch = _by_batch(same)
        small, large = min(by_batch), max(by_batch)
        # A placement with one batch says nothing of growth.
        if small != large:
            beyond = [_step(by_batch[batch][0]) - one[batch] for batch in (small, large)]
            yield (beyond[1] - beyond[0]) / one[large]


def _by_batch(rows: Sequence[Row]) -> dict[float, list[Row]]:
    found: dict[float, list[Row]] = {}
    for row in rows:
        found.setdefault(row.positive("local_bsz"), []).append(row)
    return found


def _step(row: Row) -> float:
    return row.positive("step_time_ms")
