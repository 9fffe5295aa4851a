"""Rows of adaptdl_steptime.csv as scenarios: PyTorch DDP over placements on small clusters."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

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
    known_words,
    model_in,
    packaged_rows,
    precision_in,
    read_rows,
    software_in,
)

REQUIRED = ("cluster", "gpu", "model", "placement", "nodes", "gpus", "local_bsz", "step_time_ms")
IDENTITY = (*REQUIRED[:-1], "case_id", "file")
CLUSTERS, SETTINGS = "adaptdl_clusters.csv", "adaptdl/settings.yaml"
_WEAK = "WEAK:"  # how the table of clusters begins its notes on one that is not to be trusted


class _Described(NamedTuple):
    """What the table of clusters says of one."""

    machine: str
    network: str
    software: str
    notes: str


def reader(rows: Sequence[Row]) -> Read:
    """What reads a row of such a table, beside the descriptions of its clusters."""
    described = _described(rows[0].path)
    # A series contradicts itself as a whole: all rows of the file tell.
    lines = contradictory(rows)
    return lambda row: _read(row, described, contradicts=row.line in lines)


def _read(row: Row, described: Mapping[str, _Described], *, contradicts: bool) -> PublishedStep:
    cluster = described.get(row.text("cluster"), _Described("", "", "", ""))
    gpu, ranks, placement = gpu_in(row.text("gpu")), row.count("gpus"), _placement(row)
    job = constants_file(SETTINGS)["models"].get(row.text("model"), {})
    model = job or model_in(row.text("model"))
    software = software_in(f"PyTorch AdaptDL | {cluster.software}")
    status, reason = _status(cluster, contradicts=contradicts)
    length = model.get("sequence_length")
    return PublishedStep(
        row=row,
        scenario={
            "name": f"{row.text('model')} on {row.text('cluster')} {row.text('placement')}",
            "cluster": cluster_of(
                gpu, placement, cards_in(cluster.network, gpu, placement[0]), cluster.machine
            ),
            "workload": {
                "model": model["model"],
                **({} if length is None else {"sequence_length": length}),
                "batch_per_gpu": row.whole("local_bsz"),
                "precision": precision_in(job.get("precision", "fp32"), gpu),
                "optimizer": model.get("optimizer", "momentum"),
                **known_words(software),
            },
        },
        measured=row.positive("step_time_ms") * 1e-3,
        gpus=ranks,
        work=row.whole("local_bsz"),
        groups=_groups(row, len(placement)),
        status=status,
        reason=reason,
        series=row.said("cluster", "model"),
        software=software,
    )


def _placement(row: Row) -> tuple[int, ...]:
    """GPUs of each node: AdaptDL writes a digit a node, 211 is two on one and one on two."""
    ranks, nodes, digits = row.count("gpus"), row.count("nodes"), row.text("placement")
    named = tuple(map(int, digits)) if digits.isdecimal() else ()
    if len(named) == nodes and sum(named) == ranks and all(named):
        return tuple(sorted(named, reverse=True))
    each, rest = divmod(ranks, nodes)
    if not each:
        raise NotPredictedError(f"uneven nodes: {ranks} GPUs on {nodes}")
    # "even" is as even as it goes.
    return (each + 1,) * rest + (each,) * (nodes - rest)


def _status(cluster: _Described, *, contradicts: bool) -> tuple[Status, str | None]:
    """Whether a row counts, and why it stands apart if it does not."""
    if contradicts:
        return "apart", CONTRADICTORY
    if cluster.notes.startswith(_WEAK):
        return "apart", f"described as {cluster.notes}"
    return "counted", None


def _groups(row: Row, nodes: int) -> tuple[str, ...]:
    cluster, model = row.text("cluster"), row.text("model")
    size = "one GPU" if row.count("gpus") == 1 else "one node" if nodes == 1 else "several nodes"
    return cluster, f"{cluster} {model}", f"model {model}", size


def _described(path: Path) -> dict[str, _Described]:
    """The clusters of the package, and of a file of that name beside the table."""
    own = path.with_name(CLUSTERS)
    rows = [*packaged_rows(CLUSTERS), *(read_rows(own, ("cluster",)) if own.is_file() else ())]
    return {
        row.text("cluster"): _Described(*map(row.text, ("machine", "network", "software", "notes")))
        for row in rows
    }
