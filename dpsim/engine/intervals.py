"""How far a predicted step may be off: what the models leave of measurements no fit saw.

Each family of fitted constants keeps the quantiles of ln(measured / predicted) of machines, models
and sources that were left out of its fit, and of whole generations. Errors of computing and of
communication are drawn from them, independently, and put through the step: what is slower or faster
moves what hides behind what. This is the model's error; the noise of seeds is another matter.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any

import numpy as np

from dpsim.base.arrays import FloatArray
from dpsim.engine.job import Job
from dpsim.engine.steps import Steps
from dpsim.hardware import Gpu
from dpsim.scenario import ComputeScale, MeasuredStep
from dpsim.topology import Cluster
from dpsim.workload import extrapolated_from, has_own_law

if TYPE_CHECKING:
    from dpsim.network.libraries.nccl import NcclMachine

CONFIDENCE = 0.9
_DRAWS = 4000
# As how many machines more the residuals of all families count beside those of one: a few machines
# do not show how far off the next may be.
_BORROWED = 2
_MIB = 2**20
_OTHER_LIBRARY = "what a library takes beyond ideal transfers was not compared on this network"


@dataclass(frozen=True, slots=True)
class PredictionInterval:
    """Seconds between which the mean step lies with a probability of ``confidence``.

    ``basis``: the measurements by which the models were judged. ``extrapolated``: what is unlike
    all of them, for which whole generations were left out; a sentence each.
    """

    low: float
    high: float
    confidence: float
    basis: str
    extrapolated: tuple[str, ...]

    def to_json(self) -> dict[str, Any]:
        """The object ``interval_s`` of the JSON of ``dpsim run``."""
        return {
            "low": self.low,
            "high": self.high,
            "confidence": self.confidence,
            "basis": self.basis,
            "extrapolated": list(self.extrapolated),
        }


@dataclass(frozen=True, slots=True)
class Doubt:
    """What is known of an error: quantiles of ln(measured / predicted); no error if there are none.

    Between quantiles it is interpolated by straight lines; beyond the outermost nothing is drawn.
    """

    basis: str
    levels: Sequence[float] = ()
    quantiles: Sequence[float] = ()
    extrapolated: tuple[str, ...] = ()

    def around(self, seconds: float) -> PredictionInterval:
        """The interval of what is predicted to take ``seconds``."""
        ends = ((1 - CONFIDENCE) / 2, (1 + CONFIDENCE) / 2)
        low, high = np.exp(np.interp(ends, self.levels, self.quantiles)) * seconds
        return PredictionInterval(
            float(low), float(high), CONFIDENCE, self.basis, self.extrapolated
        )

    def factors(self, generator: np.random.Generator) -> FloatArray:
        """Measured over predicted seconds, drawn."""
        if not self.levels:
            return np.ones(_DRAWS)
        at = generator.uniform(size=_DRAWS)
        return np.asarray(np.exp(np.interp(at, self.levels, self.quantiles)))


def prediction_interval(job: Job, steps: Steps) -> PredictionInterval:
    """The interval of the mean of ``steps``.

    A step of parts computing K, exposed communication E and hidden communication O becomes, with
    factors c and m on computing and communication, c K + max(0, m (E + O) - c O): what hid O
    seconds still hides c O of them.
    """
    computing, sending = compute_doubt(job), communication_doubt(job)
    # Both errors are drawn for the same run: numbers that differ by a seed differ by nothing else.
    generator = np.random.default_rng(0)
    compute, send = computing.factors(generator), sending.factors(generator)
    exposed, hidden = float(steps.exposed_comm.mean()), float(steps.overlapped_comm.mean())
    rest = float(steps.step.mean()) - exposed
    drawn = compute * rest + np.maximum(0.0, send * (exposed + hidden) - compute * hidden)
    low, high = np.quantile(drawn, [(1 - CONFIDENCE) / 2, (1 + CONFIDENCE) / 2])
    counts = exposed + hidden > 0
    return PredictionInterval(
        float(low),
        float(high),
        CONFIDENCE,
        "; ".join([computing.basis, sending.basis] if counts else [computing.basis]),
        (*computing.extrapolated, *(sending.extrapolated if counts else ())),
    )


def compute_doubt(job: Job) -> Doubt:
    """The error of compute times: none where they were measured."""
    scenario = job.scenario
    if isinstance(scenario.calibration, MeasuredStep | ComputeScale):
        return Doubt("computing as in your measured step")
    if job.model.measured is not None:
        return Doubt("computing as measured in the model's profile")
    apart = [
        f"no {gpu.architecture} GPU was measured: {gpu.name} computes as {stands}"
        for gpu, stands in borrowed_efficiencies(job)
    ]
    if has_own_law(job.model, scenario.workload.precision) and not apart:
        return _of_language_models("computing: ")
    table = _of_steps()
    found = table["figures"]
    basis = f"computing: one-GPU rows of {found['groups']} models, each left out"
    left_out = "generation_left_out" if apart else "group_left_out"
    basis += ", its GPU's generation too" if apart else ""
    return Doubt(basis, table["quantiles"], found[left_out], tuple(apart))


def borrowed_efficiencies(job: Job) -> Iterator[tuple[Gpu, str]]:
    """Each kind of GPU whose efficiency was not measured, and the generation that stands for it."""
    workload = job.scenario.workload
    for gpu, _ in job.cluster.accelerators:
        stands = extrapolated_from(
            job.model, gpu.architecture, workload.precision, workload.execution, workload.kernels
        )
        if stands is not None:
            yield gpu, stands


def communication_doubt(job: Job) -> Doubt:
    """The error of a job's collectives."""
    if job.setting.transport is not None:
        return Doubt("messages as in the calibration profile")
    library = getattr(job.scenario.strategy.aggregation, "library", "ideal")
    calls = (call for calls in job.calls_of.values() for call in calls)
    largest = max((nbytes for call in calls for _, nbytes in call.stages), default=0)
    return _doubt(job.cluster, library, "all-reduce", largest)


def collective_interval(
    cluster: Cluster, library: str, operation: str, nbytes: int, seconds: float
) -> PredictionInterval:
    """The interval of one collective that takes ``seconds`` on ``cluster``."""
    return _doubt(cluster, library, operation, nbytes).around(seconds)


def machine_interval(
    machine: NcclMachine, operation: str, nbytes: float, seconds: float
) -> PredictionInterval:
    """The interval of NCCL's ``operation``, by its own name, on a machine that is described."""
    return _of_machine(machine, operation, nbytes).around(seconds)


def language_model_interval(seconds: float) -> PredictionInterval:
    """The interval of a step of a language model on GPUs of generations that were measured."""
    return _of_language_models("").around(seconds)


def _of_language_models(what: str) -> Doubt:
    table = _of_steps()
    found = table["language models"]
    basis = f"{what}steps of language models of {found['groups']} sources, each left out"
    return Doubt(basis, table["quantiles"], found["group_left_out"])


def _doubt(cluster: Cluster, library: str, operation: str, nbytes: int) -> Doubt:
    """What NCCL's model leaves of machines like this one; of other libraries nothing is known."""
    if library == "nccl":
        from dpsim.network.libraries.nccl import machine_of, nccl_name

        return _of_machine(machine_of(cluster), nccl_name(operation), nbytes)
    return _pooled(cluster.nodes == 1, _size_class(nbytes), _OTHER_LIBRARY, _of_nccl())


def _of_machine(machine: NcclMachine, operation: str, nbytes: float) -> Doubt:
    from dpsim.network.libraries.nccl import generation

    sizes = _size_class(nbytes)
    return nccl_doubt(generation(machine), machine.nodes == 1, operation, sizes)


def _size_class(nbytes: float) -> str:
    return "from 1 MiB" if nbytes >= _MIB else "below 1 MiB"


def nccl_doubt(
    generation: str,
    is_one_node: bool,
    operation: str,
    sizes: str,
    residuals: Mapping[str, Any] | None = None,
) -> Doubt:
    """The error of NCCL's model on machines of a ``generation``.

    ``operation`` by NCCL's name; ``sizes`` is "below 1 MiB" or "from 1 MiB". Residuals of the
    family's machines, and with less weight those of all families with whole generations left out.
    Where one machine of the generation was measured or none, the latter alone. ``residuals`` stand
    in for the shipped ones.
    """
    table = _of_nccl() if residuals is None else residuals
    by_operation = {
        family["operation"]: family
        for family in table["families"]
        if generation in family["generations"] and family["sizes"] == sizes
    }
    found = by_operation.get(operation) or by_operation.get("any")
    if found is None or found["machines"] == 1:
        apart = f"of {generation} {'one machine' if found else 'no machine'} was measured"
        return _pooled(is_one_node, sizes, apart, table)
    basis = f"communication: {found['machines']} machines of {found['family']}, each left out"
    others = _pooled(is_one_node, sizes, "", table)
    both = np.array([found["machine_left_out"], others.quantiles])
    quantiles = _mixed(both, [found["machines"], _BORROWED])
    return Doubt(basis, table["quantiles"], quantiles)


def _pooled(is_one_node: bool, sizes: str, apart: str, table: Mapping[str, Any]) -> Doubt:
    """The error over all families inside nodes or between them, generations left out.

    Families count by their machines. ``apart`` says what is unlike all of them.
    """
    families = [
        family
        for family in table["families"]
        if family["operation"] == "any"
        and family["sizes"] == sizes
        and family["family"].startswith("single-node") == is_one_node
    ]
    weights = [family["machines"] for family in families]
    members = np.array([family["generation_left_out"] for family in families])
    basis = "communication: NCCL's tables of all such networks, whole generations left out"
    return Doubt(basis, table["quantiles"], _mixed(members, weights), (apart,))


def _mixed(members: FloatArray, weights: Sequence[float]) -> list[float]:
    """Quantiles of a mixture of distributions that are known by quantiles at the same levels."""
    levels = np.array(_of_nccl()["quantiles"])
    values = np.sort(members.ravel())
    below = np.zeros(len(values))
    for quantiles, weight in zip(members, weights, strict=True):
        below += weight * np.interp(values, quantiles, levels, left=0.0, right=1.0)
    return [float(each) for each in np.interp(levels, below / sum(weights), values)]


@cache
def _of_steps() -> Mapping[str, Any]:
    content: Mapping[str, Any] = json.loads(
        files("dpsim.engine").joinpath("step_residuals.json").read_bytes()
    )
    return content


@cache
def _of_nccl() -> Mapping[str, Any]:
    content: Mapping[str, Any] = json.loads(
        files("dpsim.network").joinpath("libraries/nccl/residuals.json").read_bytes()
    )
    return content
