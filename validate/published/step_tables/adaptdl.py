"""Rows of adaptdl_steptime.csv as scenarios: PyTorch DDP over placements on small clusters.

Series that no data-parallel step can explain do not count. A series is the rows of one model from
one file. The additional time of a step over one GPU's comes from the network, which moves the same
bytes whatever the batch, and from other load on the host.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from statistics import median

from validate.published.tables.csv_file import NotPredictedError, Row, group_rows, read_rows
from validate.published.tables.machines import cards_in, cluster_of, gpu_in
from validate.published.tables.packaged import constants_file, packaged_rows
from validate.published.tables.published_step import (
    PublishedStep,
    Read,
    Status,
    StepTable,
    published_step,
)
from validate.published.tables.training import software_in, workload_of

REQUIRED = ("cluster", "gpu", "model", "placement", "nodes", "gpus", "local_bsz", "step_time_ms")
IDENTITY = (*REQUIRED[:-1], "case_id", "file")
CLUSTERS, SETTINGS = "adaptdl_clusters.csv", "step_tables/adaptdl.yaml"
MOST_GROWTH = 1.0
CONTRADICTORY = (
    "its series takes longer beside one GPU the larger the batch, by more than one GPU's whole "
    "step: no network does that"
)
_WEAK_PREFIX = "WEAK:"  # prefix of the notes on an untrusted cluster in the table of clusters


def reader(rows: Sequence[Row]) -> Read:
    """Return the function that reads a row, with the clusters' descriptions loaded once."""
    described = _cluster_rows(rows[0].path)
    # A series contradicts itself as a whole, so all rows of the file are checked.
    lines = contradictory(rows)
    return lambda row: _read(row, described, contradicts=row.line in lines)


def _read(row: Row, described: Mapping[str, Row], *, contradicts: bool) -> PublishedStep:
    cluster = described.get(row.text("cluster"), Row(row.path, row.line, {}))
    gpu, placement = gpu_in(row.text("gpu")), _placement(row)
    software = software_in(f"PyTorch AdaptDL | {cluster.text('software')}")
    # The model's name determines what was trained, and in which precision.
    job = constants_file(SETTINGS)["models"].get(row.text("model"), {})
    workload = workload_of(row.with_texts(job), gpu, software, row.whole("local_bsz"))
    if "optimizer" in job:
        workload["optimizer"] = job["optimizer"]
    status, reason = _status(cluster, contradicts=contradicts)
    cards = cards_in(cluster.text("network"), gpu, placement[0])
    return published_step(
        row,
        name=f"{row.text('model')} on {row.text('cluster')} {row.text('placement')}",
        cluster=cluster_of(gpu, placement, cards, cluster.text("machine")),
        workload=workload,
        strategy={},
        measured=row.positive("step_time_ms") * 1e-3,
        groups=_groups(row, len(placement)),
        status=status,
        reason=reason,
        series=row.joined("cluster", "model"),
        software=software,
    )


def _placement(row: Row) -> tuple[int, ...]:
    """Return the GPUs of each node: AdaptDL writes one digit per node, so 211 means 2 + 1 + 1."""
    ranks, nodes, digits = row.count("gpus"), row.count("nodes"), row.text("placement")
    named = tuple(map(int, digits)) if digits.isdecimal() else ()
    if len(named) == nodes and sum(named) == ranks and all(named):
        return tuple(sorted(named, reverse=True))
    each, rest = divmod(ranks, nodes)
    if not each:
        raise NotPredictedError(f"uneven nodes: {ranks} GPUs on {nodes}")
    # "even" means as even as possible.
    return (each + 1,) * rest + (each,) * (nodes - rest)


def _status(cluster: Row, *, contradicts: bool) -> tuple[Status, str | None]:
    """Return whether a row counts, and the reason if it does not."""
    if contradicts:
        return "apart", CONTRADICTORY
    if cluster.text("notes").startswith(_WEAK_PREFIX):
        return "apart", f"described as {cluster.text('notes')}"
    return "counted", None


def _groups(row: Row, nodes: int) -> tuple[str, ...]:
    cluster, model = row.text("cluster"), row.text("model")
    size = "one GPU" if row.count("gpus") == 1 else "one node" if nodes == 1 else "several nodes"
    return cluster, f"{cluster} {model}", f"model {model}", size


def _cluster_rows(path: Path) -> dict[str, Row]:
    """Return the packaged clusters, and clusters from a file of the same name next to the table."""
    own = path.with_name(CLUSTERS)
    rows = [*packaged_rows(CLUSTERS), *(read_rows(own, ("cluster",)) if own.is_file() else ())]
    return {row.text("cluster"): row for row in rows}


def contradictory(rows: Sequence[Row]) -> frozenset[int]:
    """Return the lines of series whose time beyond one GPU's grows by more than one GPU's step.

    The growth is from a placement's smallest batch to its largest; the median over placements
    counts. Series of models without a row on one GPU are never included.
    """
    lines: set[int] = set()
    for of_model in group_rows(rows, ("cluster", "model")).values():
        single_gpu = [row for row in of_model if row.count("gpus") == 1]
        one = {
            batch: median(_step(row) for row in same)
            for batch, same in _by_batch(single_gpu).items()
        }
        several = [row for row in of_model if row.count("gpus") > 1]
        for series in group_rows(several, ("file",)).values():
            growths = list(_growths(series, one))
            # Rows on one GPU stay: only the time beyond them is contradictory.
            if growths and median(growths) > MOST_GROWTH:
                lines |= {row.line for row in series}
    return frozenset(lines)


def _growths(series: Sequence[Row], one: Mapping[float, float]) -> Iterator[float]:
    """Yield, per placement, the growth of the time beyond one GPU's, in one GPU's steps."""
    # The time beyond one GPU's is only known for batches that also ran on one GPU.
    usable = [row for row in series if row.number("local_bsz") in one]
    for same in group_rows(usable, ("placement", "nodes", "gpus")).values():
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


# Its steps on one GPU are also rows of the one-GPU table.
_SOURCE = "single-gpu github siasosp23/artifacts@aaf7a0d"
STEP_TABLE = StepTable(
    REQUIRED, IDENTITY, reader, plans=True, fitted="adaptdl_steptime.csv", group=lambda row: _SOURCE
)
