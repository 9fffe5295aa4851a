"""Which series of a cluster's table no data-parallel step can explain.

A series is the rows of one model from one file. What a step takes beyond one GPU's is the network,
which moves the same bytes whatever the batch, and neighbours on the host.
"""

from __future__ import annotations

import numpy as np

from dpsim.base.arrays import BoolArray, FloatArray
from validate.published.tables import Columns

MOST_GROWTH = 1.0
CONTRADICTORY = (
    "its series takes longer beside one GPU the larger the batch, by more than one GPU's whole "
    "step: no network does that"
)


def contradictory(rows: Columns) -> BoolArray:
    """Rows of series whose time beyond one GPU's grows with the batch by more than that GPU's step.

    The growth is from a placement's smallest batch to its largest, the median over placements
    counts. Series whose model has no row on one GPU are never among them.
    """
    found = np.zeros(len(rows), dtype=bool)
    names = [name for name in ("cluster", "model", "file") if name in rows.columns]
    keys = np.array(["|".join(key) for key in rows.keys(names)], dtype=np.str_)
    batch, step = rows.numbers("local_bsz"), rows.numbers("step_time_ms")
    alone = rows.numbers("gpus") == 1
    models = np.array(["|".join(key) for key in rows.keys(("cluster", "model"))], dtype=np.str_)
    for key in sorted(set(keys.tolist())):
        of_series = keys == key
        of_model = models == models[of_series][0]
        one = _by_batch(batch[alone & of_model], step[alone & of_model])
        # Only batches that ran on one GPU too have a time beyond it.
        usable = of_series & ~alone & np.isin(batch, list(one))
        growths = _growths(rows.where(usable), one)
        # Rows on one GPU stay: the contradiction is in what comes beyond them.
        found[of_series & ~alone] = bool(growths) and float(np.median(growths)) > MOST_GROWTH
    return found


def _by_batch(batch: FloatArray, step: FloatArray) -> dict[float, float]:
    """One GPU's median step of each batch."""
    stated = set(batch[np.isfinite(batch)].tolist())
    return {size: float(np.median(step[batch == size])) for size in stated}


def _growths(rows: Columns, one: dict[float, float]) -> list[float]:
    """Of each placement, by how much of one GPU's step its time beyond that grows."""
    places = np.array(["|".join(key) for key in rows.keys(("placement", "nodes", "gpus"))])
    batch, step = rows.numbers("local_bsz"), rows.numbers("step_time_ms")
    found = []
    alone = np.array([one[size] for size in batch.tolist()])
    beyond = step - alone
    for place in sorted(set(places.tolist())):
        at = np.flatnonzero(places == place)
        small, large = at[np.argmin(batch[at])], at[np.argmax(batch[at])]
        # A placement with one batch says nothing of growth.
        if small != large:
            found.append((beyond[large] - beyond[small]) / alone[large])
    return found
