"""``dpsim validate reference adaptdl``.

Step times of PyTorch DDP jobs over placements on small clusters.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path

from dpsim.base.arrays import BoolArray
from dpsim.hardware import gpu_named_in
from validate.published.adaptdl.model import (
    MODEL_FIELDS,
    ClusterParameters,
    ModelParameters,
    borrowed,
    fit_cluster,
    predict,
    unmeasured_cluster,
    with_peaks,
)
from validate.published.adaptdl.series import CONTRADICTORY, contradictory
from validate.published.tables import (
    Columns,
    Progress,
    Status,
    StepReference,
    StepRow,
    constants_file,
    identities,
    joined,
    occurs,
    packaged_table,
    read_columns,
)

REQUIRED = ("cluster", "gpu", "model", "placement", "nodes", "gpus", "local_bsz", "step_time_ms")
CONFIGURATION = ("cluster", "model", "placement", "nodes", "gpus", "local_bsz")
JOB = ("cluster", "model", "local_bsz")
TABLE, CLUSTERS, FITTED = "adaptdl_steptime.csv", "adaptdl_clusters.csv", "adaptdl/fitted.yaml"
SMALL = 4  # GPUs up to which rows of a left-out model are still fitted on
Links = dict[str, tuple[str, str]]
_WEAK = "WEAK:"  # how the table of clusters begins its notes on one that is not to be trusted


def compare(tested: Columns, known: Columns | None, progress: Progress) -> StepReference:
    """Predict each row of ``tested``.

    Compute from one-GPU rows, the network per cluster from ``known`` (None: shipped).
    """
    result = StepReference("adaptdl")
    source = packaged_table(TABLE, REQUIRED) if known is None else known
    links, weak = described(tested), _weak(tested)
    names = sorted(set(tested.text("cluster").tolist()))
    jobs = zip(tested.text("cluster").tolist(), tested.text("model").tolist(), strict=True)
    total = len(set(jobs))
    done = 0
    for name in names:
        cluster = _Cluster(
            name, tested, source, links.get(name), weak.get(name), known is None, result
        )
        for model in sorted(set(cluster.rows.text("model").tolist())):
            cluster.add(model)
            done += 1
            progress("predicting", done, total)
    return result


def peak_of(name: str) -> float | None:
    """Dense fp32 peak in FLOP/s of a GPU, however written; None for an unknown one."""
    gpu = gpu_named_in(name)
    return None if gpu is None else gpu.peak["fp32"].value


class _Cluster:
    """The tested rows of one cluster, and the fits that may predict them.

    ``known`` rows or the shipped constants say what was known beforehand.
    """

    def __init__(
        self,
        name: str,
        tested: Columns,
        source: Columns,
        links: tuple[str, str] | None,
        weak: str | None,
        shipped: bool,
        result: StepReference,
    ) -> None:
        self.name = name
        self.links = links
        self.weak = weak
        self.shipped = shipped
        self.result = result
        self.source = source
        self.rows = tested.where(tested.text("cluster") == name)
        self.contradictory = contradictory(self.rows)
        self.known = source.where(source.text("cluster") == name)
        self.seen = occurs(self.rows, self.known, CONFIGURATION)
        # One-GPU rows of jobs that the known rows lack calibrate the compute, and are not scored.
        self.calibrating: BoolArray = (self.rows.positive("gpus") == 1) & ~occurs(
            self.rows, self.known, JOB
        )
        self.fits: dict[str | None, ClusterParameters] = {}

    def add(self, model: str) -> None:
        """Predict the rows of one model."""
        at = self.rows.text("model") == model
        large = at & (self.rows.positive("gpus") > SMALL)
        left_out = model if bool((large & self.seen).any()) else None
        if left_out:
            self.result.left_out = (
                f"models that were fitted on are left out, above {SMALL} GPUs, "
                "of the fit that predicts them"
            )
        cluster = self.fit(left_out)
        job = cluster.models.get(model) or self._borrow(model, cluster)
        if job is None:
            reason = f"no row of model {model!r} to calibrate its compute on"
            self.result.not_predicted += [(int(line), reason) for line in self.rows.line[at]]
            return
        self._score(model, at, cluster, job, left_out)

    def fit(self, left_out: str | None) -> ClusterParameters:
        """Parameters fitted without the large rows of a model."""
        if left_out not in self.fits:
            self.fits[left_out] = self._fit(left_out)
        return self.fits[left_out]

    def _fit(self, left_out: str | None) -> ClusterParameters:
        if self.shipped and left_out is None and not self.calibrating.any() and len(self.known):
            return shipped()[self.name]
        # Its rows on few GPUs stay, by which its compute is known.
        keep = ~((self.known.text("model") == left_out) & (self.known.positive("gpus") > SMALL))
        rows = joined([self.known.where(keep), self.rows.where(self.calibrating)])
        if not len(self.known):
            self.result.note(
                f"cluster {self.name!r} is in no fitted row: its network is a guess from "
                f"{self.links or 'no words'}"
            )
        return _fit_to(rows, self.links) if len(rows) else unmeasured_cluster(self.links)

    def _borrow(self, model: str, here: ClusterParameters) -> ModelParameters | None:
        """A job that was never run here, from another cluster.

        Scaled by jobs that both ran, else by the GPUs' peaks.
        """
        others = {name: other for name, other in self._others().items() if model in other.models}
        # By jobs that ran on both machines: they say more of them than their data sheets.
        job = borrowed(model, here, others.values())
        if job is not None:
            self.result.note(
                f"model {model!r} was never run on {self.name!r} in the fitted rows: scaled from "
                "another cluster"
            )
            return job
        gpu = peak_of(str(self.rows.text("gpu")[0]))
        for name, other in others.items():
            peak = peak_of(str(self.source.text("gpu")[self.source.text("cluster") == name][0]))
            if gpu and peak:
                self.result.note(
                    f"model {model!r} on {self.name!r}: compute from {name!r}, scaled by the "
                    "GPUs' fp32 peaks"
                )
                return with_peaks(other.models[model], peak / gpu)
        return None

    def _others(self) -> dict[str, ClusterParameters]:
        if self.shipped:
            return {name: other for name, other in shipped().items() if name != self.name}
        names = sorted(set(self.source.text("cluster").tolist()) - {self.name})
        return {
            name: _fit_to(self.source.where(self.source.text("cluster") == name), None)
            for name in names
        }

    def _score(
        self,
        model: str,
        at: BoolArray,
        cluster: ClusterParameters,
        job: ModelParameters,
        left_out: str | None,
    ) -> None:
        rows = self.rows.where(at)
        words = "shipped" if self.shipped else "fitted on --fit-on"
        if left_out:
            words += ", without this model's large rows"
        # Rows on few GPUs stay in the fit even where the model's larger ones are left out of it.
        stays = (rows.positive("gpus") <= SMALL) | (left_out is None)
        used = self.calibrating[at] | (self.seen[at] & stays)
        cells = zip(
            rows.line,
            identities(rows, (*REQUIRED[:-1], "case_id", "file")),
            predict(rows, cluster, job),
            rows.positive("step_time_ms") * 1e-3,
            used,
            self.contradictory[at],
            strict=True,
        )
        for line, identity, predicted, measured, fitted, against in cells:
            status, reason = self._status(bool(fitted), bool(against))
            groups: tuple[str, ...] = (self.name, f"{self.name} {model}", f"model {model}")
            if reason == CONTRADICTORY:
                groups = (f"{self.name} {model}, contradictory",)
            times = float(predicted), float(measured)
            row = StepRow(int(line), identity, *times, words, status, groups, reason=reason)
            self.result.every.append(row)

    def _status(self, fitted: bool, contradictory: bool) -> tuple[Status, str | None]:
        """Whether a row counts, and why it stands apart if it does not."""
        if contradictory:
            return "apart", CONTRADICTORY
        if fitted:
            return "fitted on", None
        return ("counted", None) if self.weak is None else ("apart", self.weak)


def _fit_to(rows: Columns, links: tuple[str, str] | None) -> ClusterParameters:
    """Parameters of one cluster by all rows given but those that no step explains."""
    # Asked of these rows alone: rows that are left out must not say which others are kept.
    return fit_cluster(rows.where(~contradictory(rows)), links)


def described(tested: Columns) -> Links:
    """(intra_link, network) of each cluster.

    From the package, and from a file of that name beside the table.
    """
    links: Links = {}
    for table in _clusters(tested):
        cells = zip(
            *(table.text(name).tolist() for name in ("cluster", "intra_link", "network")),
            strict=True,
        )
        links |= {name: (inside, between) for name, inside, between in cells}
    return links


def _weak(tested: Columns) -> dict[str, str]:
    """Why rows of a cluster stand apart, where its description says that they are weak."""
    found: dict[str, str] = {}
    for table in _clusters(tested):
        notes = zip(table.text("cluster").tolist(), table.text("notes").tolist(), strict=True)
        found |= {name: f"described as {said}" for name, said in notes if said.startswith(_WEAK)}
    return found


def _clusters(tested: Columns) -> list[Columns]:
    """The descriptions of clusters: the package's, and those beside the table."""
    required = ("cluster", "intra_link", "network")
    tables = [packaged_table(CLUSTERS, required)]
    own = Path(str(tested.path[0])).with_name(CLUSTERS)
    return [*tables, read_columns(own, required)] if own.is_file() else tables


@cache
def shipped() -> dict[str, ClusterParameters]:
    """The constants of the package, fitted on all public rows of each cluster."""
    found: dict[str, ClusterParameters] = {}
    for name, cluster in constants_file(FITTED)["clusters"].items():
        models = {
            model: ModelParameters(
                **{field: float(job[field]) for field in MODEL_FIELDS},
                batches=tuple(float(batch) for batch in job["batches"]),
                gpu_s=tuple(float(seconds) for seconds in job["gpu_s"]),
            )
            for model, job in cluster["models"].items()
        }
        values = {key: float(entry["value"]) for key, entry in cluster["network"].items()}
        found[name] = ClusterParameters(
            values, {k: float(e["error"]) for k, e in cluster["network"].items()}, models
        )
    return found
