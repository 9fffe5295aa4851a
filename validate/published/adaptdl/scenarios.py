"""Rows of adaptdl_steptime.csv as scenarios: PyTorch DDP over placements on small clusters."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from validate.published.adaptdl.series import CONTRADICTORY, contradictory
from validate.published.tables import (
    NotPredictedError,
    PublishedStep,
    Read,
    Row,
    Status,
    cards_in,
    cluster_of,
    constants_file,
    gpu_in,
    packaged_rows,
    published_step,
    read_rows,
    software_in,
    workload_of,
)

REQUIRED = ("cluster", "gpu", "model", "placement", "nodes", "gpus", "local_bsz", "step_time_ms")
IDENTITY = (*REQUIRED[:-1], "case_id", "file")
CLUSTERS, SETTINGS = "adaptdl_clusters.csv", "adaptdl/settings.yaml"
_WEAK = "WEAK:"  # prefix of the notes on an untrusted cluster in the table of clusters


def reader(rows: Sequence[Row]) -> Read:
    """Return the function that reads a row, with the clusters' descriptions loaded once."""
    described = _described(rows[0].path)
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
        series=row.said("cluster", "model"),
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
    if cluster.text("notes").startswith(_WEAK):
        return "apart", f"described as {cluster.text('notes')}"
    return "counted", None


def _groups(row: Row, nodes: int) -> tuple[str, ...]:
    cluster, model = row.text("cluster"), row.text("model")
    size = "one GPU" if row.count("gpus") == 1 else "one node" if nodes == 1 else "several nodes"
    return cluster, f"{cluster} {model}", f"model {model}", size


def _described(path: Path) -> dict[str, Row]:
    """Return the packaged clusters and those of a file of the same name beside the table."""
    own = path.with_name(CLUSTERS)
    rows = [*packaged_rows(CLUSTERS), *(read_rows(own, ("cluster",)) if own.is_file() else ())]
    return {row.text("cluster"): row for row in rows}
