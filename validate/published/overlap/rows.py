"""Rows of scaling.csv that tell overlap policies apart.

One model on one cluster by WFBP, SyncEASGD and MG-WFBP.

Each becomes what the simulator's own policy makes of it: the operations of a step as
`dpsim.strategy.overlap` merges and orders them, given the alpha and beta that the authors published
for their cluster (comm_fits.csv). Compute times of layers are those of the catalogue's figures,
scaled to the compute time that the row states beside its step, or to the smallest configuration of
its case.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache

import numpy as np

from dpsim.base.arrays import FloatArray
from dpsim.base.errors import DpsimError
from dpsim.engine import prepare
from dpsim.strategy.aggregation import ELEMENT, AllReduceConfig
from dpsim.strategy.overlap import MgWfbpConfig, Outlook, Overlap, SequentialConfig, WfbpConfig
from dpsim.topology import Mesh
from dpsim.workload import Model, canonical_name
from validate.published.scaling import nic_rate
from validate.published.tables import (
    Columns,
    constants_file,
    packaged_table,
    scenario_of_row,
)

FITS = "comm_fits.csv"
POLICIES: dict[str, Overlap] = {
    "MG-WFBP": MgWfbpConfig(kind="mg-wfbp"),
    "WFBP": WfbpConfig(kind="wfbp"),
    "SyncEASGD": SequentialConfig(kind="sequential"),
}
_GPUS = {"v100": "v100-pcie-16gb", "k80": "k80", "2080ti": "rtx-2080-ti"}
_STATED = re.compile(r"\bcomput\w*(?: part)? ([\d.]+) ms")
_MEMORY = "memory"
_SETTING = ("model", "network", "precision", "gpus", "per_gpu_batch")


@dataclass(frozen=True, eq=False)
class PolicyRow:
    """One row, at ``index`` of its table.

    ``ready`` (s) and ``nbytes`` of each operation, in the order in which they go; ``backward`` and
    ``whole`` (s): the end of the backward pass and of the step without communication; ``alpha`` (s)
    and ``beta`` (s/B) as published; ``measured`` (s).
    """

    index: int
    policy: str
    cluster: str
    model: str
    setting: tuple[str, ...]
    ready: FloatArray
    nbytes: FloatArray
    backward: float
    whole: float
    alpha: float
    beta: float
    measured: float


@dataclass(frozen=True, slots=True)
class Fit:
    """What comm_fits.csv states of one network.

    ``rate`` is in B/s; ``alpha``, ``beta`` and ``gamma`` are of whole all-reduces, or of one
    message of a ring.
    """

    k80: bool
    rate: float
    ranks: float
    per_message: bool
    alpha: float
    beta: float
    gamma: float


def policy_of(system: str) -> str | None:
    """The overlap policy that a system's name states, in any case; None for others."""
    words = system.upper()
    return next((name for name in POLICIES if name.upper() in words), None)


class _Table:
    """Rows whose columns become numbers once, when the first row asks for them."""

    def __init__(self, rows: Columns) -> None:
        self.text = rows.text
        self.numbers = cache(rows.numbers)
        self.above_zero = cache(rows.above_zero)
        self.settings = rows.keys(_SETTING)
        self.compute = _compute(rows)


def policy_rows(rows: Columns) -> tuple[list[PolicyRow], dict[int, str]]:
    """The rows of known policies that can be predicted, and why the others cannot, by index."""
    found, refused = [], {}
    table = _Table(rows)
    for index, system in enumerate(rows.text("system").tolist()):
        policy = policy_of(system)
        if policy is None:
            continue
        try:
            found.append(_policy_row(table, index, policy))
        except DpsimError as error:
            refused[index] = str(error)
    return found, refused


def _compute(rows: Columns) -> FloatArray:
    """Seconds of computing of each row.

    They are what its notes state, or its case's step on the fewest GPUs; NaN for that one itself.
    """
    step, ranks = rows.above_zero("step_time_ms") * 1e-3, rows.numbers("gpus")
    seconds = np.full(len(rows), np.nan)
    cases = rows.text("case_id")
    for index, notes in enumerate(rows.text("notes").tolist()):
        stated = _STATED.search(notes)
        if stated:
            seconds[index] = float(stated[1]) * 1e-3
            continue
        same = np.flatnonzero(cases == cases[index])
        smallest = same[np.argmin(ranks[same])]
        if ranks[smallest] < ranks[index]:
            seconds[index] = step[smallest]
    return seconds


def _policy_row(rows: _Table, index: int, policy: str) -> PolicyRow:
    cell = {name: str(rows.text(name)[index]) for name in ("model", "precision", "network", "gpu")}
    step = rows.above_zero("step_time_ms")[index] * 1e-3
    seconds = rows.compute[index]
    if np.isnan(step) or np.isnan(seconds):
        raise DpsimError("states no compute time, or is the smallest configuration of its case")
    model, positions = _positions(
        cell["model"], cell["gpu"], cell["precision"], _batch(rows, index)
    )
    # The catalogue says how a step divides among its layers, the row how long it is.
    positions = positions * seconds / positions[-1]
    ranks, nodes = float(rows.numbers("gpus")[index]), float(rows.above_zero("nodes")[index])
    alpha, beta = published(cell["network"], cell["gpu"], ranks, nodes)
    element = 2 if cell["precision"] == "fp16" else ELEMENT
    outlook = Outlook(positions, alpha, beta * element / ELEMENT)
    workers = Mesh(round(ranks), None)
    gradients = AllReduceConfig(kind="allreduce").calls(model, outlook.program, 1, workers)
    planned = POLICIES[policy].plan(gradients, outlook)

    # One setting is one choice of all but the policy: its rows are ranked among one another.
    gpu = _gpu_word(cell["gpu"])
    rate = nic_rate(cell["network"], constants_file("scaling/settings.yaml"))
    return PolicyRow(
        index,
        policy,
        f"{gpu} {rate * 8e-9:g} Gbit/s",
        model.name,
        (gpu, *rows.settings[index]),
        np.array([outlook.ready(operation) for operation in planned]),
        # Policies count in float32. Half-precision gradients are half of that on the wire.
        np.array([operation.nbytes for operation in planned]) * element / ELEMENT,
        float(positions[-2]),
        float(positions[-1]),
        alpha,
        beta,
        float(step),
    )


def _batch(rows: _Table, index: int) -> int:
    """Samples per GPU; 32 where the row states none.

    That only shifts shares between layers a little.
    """
    batch = rows.above_zero("per_gpu_batch")[index]
    return 32 if np.isnan(batch) else int(batch)


def _gpu_word(gpu: str) -> str:
    lowered = gpu.casefold().replace(" ", "")
    return next((word for word in _GPUS if word in lowered), "v100")


@cache
def _positions(name: str, gpu: str, precision: str, batch: int) -> tuple[Model, FloatArray]:
    """The model, and the seconds from a step's start to each position of it.

    By the catalogue's figures.
    """
    half = precision == "fp16" and _gpu_word(gpu) == "v100"
    scenario = scenario_of_row(
        {
            "name": name,
            "cluster": {"node": "single-gpu", "gpu": _GPUS[_gpu_word(gpu)]},
            "workload": {
                "model": canonical_name(name),
                "batch_per_gpu": batch,
                "precision": "fp16" if half else "fp32",
            },
        }
    )
    job = prepare(scenario)
    return job.model, job.positions[:, 0]


def published(network: str, gpu: str, ranks: float, nodes: float) -> tuple[float, float]:
    """Alpha (s) and beta (s/B) of an all-reduce on the cluster, of comm_fits.csv.

    Same rate, same GPUs if there are, nearest ranks.

    Raises DpsimError where none is of that rate.
    """
    constants = constants_file("scaling/settings.yaml")
    rate, word = nic_rate(network, constants), _gpu_word(gpu)
    same = [fit for fit in _fits() if fit.rate == rate and fit.k80 == (word == "k80")]
    if not same:
        raise DpsimError(f"comm_fits.csv has no all-reduce at the rate of {network!r}")
    # A fit that states no number of ranks holds for any.
    nearest = min(
        same, key=lambda fit: 0.0 if np.isnan(fit.ranks) else abs(np.log(fit.ranks / ranks))
    )
    if not nearest.per_message:
        return nearest.alpha, nearest.beta
    n = ranks if np.isnan(nodes) else nodes
    # A ring: 2 (n - 1) messages of a chunk each, of which the first half are added up.
    return 2 * (n - 1) * nearest.alpha, (n - 1) / n * (2 * nearest.beta + nearest.gamma)


@cache
def _fits() -> tuple[Fit, ...]:
    """The fits of whole all-reduces, or of a ring's messages, that are not from memory."""
    table = packaged_table(
        FITS, ("machine", "network", "n_ranks", "model", "alpha_s", "beta_s_per_byte")
    )
    constants = constants_file("scaling/settings.yaml")
    costs = [table.numbers(name) for name in ("alpha_s", "beta_s_per_byte", "gamma_s_per_byte")]
    found = []
    for row in range(len(table)):
        machine, network, ranks, model, status = (
            str(table.text(name)[row])
            for name in ("machine", "network", "n_ranks", "model", "source_status")
        )
        # A single message's fit has no all-reduce in it.
        if status == _MEMORY or "per message" in model:
            continue
        known = float(ranks) if ranks.isdigit() else np.nan
        # A formula with (n-1) is a ring's, with the costs of its messages.
        is_ring = "(n-1)" in model
        alpha, beta, gamma = (float(np.nan_to_num(cost[row])) for cost in costs)
        is_k80 = "k80" in machine.casefold()
        rate = nic_rate(network, constants)
        found.append(Fit(is_k80, rate, known, is_ring, alpha, beta, gamma))
    return tuple(found)
