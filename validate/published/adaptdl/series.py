"""Find series of a cluster's table that no data-parallel step can explain.

A series is the rows of one model from one file. The time of a step beyond that of one GPU comes
from the network, which moves the same bytes whatever the batch, and from other load on the host.
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
    """Return the lines of series whose time beyond one GPU's grows by more than one GPU's step.

    The growth is from a placement's smallest batch to its largest; the median over placements
    counts. Series of models without a row on one GPU are never included.
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
            # Rows on one GPU stay: only the time beyond them is contradictory.
            if growths and median(growths) > MOST_GROWTH:
                found |= {row.line for row in series}
    return frozenset(found)


def _growths(series: Sequence[Row], one: Mapping[float, float]) -> Iterator[float]:
    """Yield, per placement, the growth of the time beyond one GPU's, in one GPU's steps."""
    # The time beyond one GPU's is only known for batches that also ran on one GPU.
    usable = [row for row in series if row.number("local_bsz") in one]
    for same in gathered(usable, ("placement", "nodes", "gpus")).values():
        by_batch = _by_batch(same)
        small, large = min(by_batch), max(by_batch)
        # A placement with one batch has no growth.
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
