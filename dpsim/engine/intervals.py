"""Prediction intervals of a step, from the models' errors on held-out measurements.

Each family of fitted constants has the spread of ln(measured / predicted) over machines, models and
sources that were left out of its fit, and over whole GPU generations. Errors of computing and of
communication are drawn from it independently and propagated through the step, because slower
computing or communication changes how much of it overlaps. The interval covers the model's error
only, not the noise between seeds.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from dpsim.base.arrays import FloatArray
from dpsim.base.shipped import shipped_json
from dpsim.base.uncertainty import (
    CONFIDENCE,
    ENDS,
    ModelError,
    PredictionInterval,
    Source,
    balanced,
    normal_spread,
)
from dpsim.base.units import plural
from dpsim.engine.job import Job
from dpsim.engine.known_residuals import left_out_error
from dpsim.engine.step_priors import residual_prior
from dpsim.engine.steps import Steps
from dpsim.hardware import Gpu, KnownRun, any_multi_node
from dpsim.workload import (
    MeasuredTimes,
    Model,
    WorkloadConfig,
    is_gpu_bound,
    is_language_model,
    measured_generation,
)

_CALIBRATION = "calibration"
_NO_NETWORK = 0.7  # added spread if no known run used several nodes
_LONG = 1024  # tokens a sample; matrix products of such language models fill a GPU


@dataclass(frozen=True, slots=True)
class StepErrors:
    """The errors of a mean step, and the seconds that they apply to.

    ``rest`` is the step without its ``exposed`` communication; ``hidden`` communication overlaps
    with it.
    """

    computing: ModelError
    sending: ModelError
    rest: float
    exposed: float
    hidden: float

    def seconds(self, compute: FloatArray, send: FloatArray) -> FloatArray:
        """Return the step time under factors on computing and on communication.

        For computing K, exposed communication E and overlapped communication O, with factors c and
        m, it is c K + max(0, m (E + O) - c O): computing that covered O seconds still covers c O of
        them.
        """
        hidden = compute * self.hidden
        return compute * self.rest + np.maximum(0.0, send * (self.exposed + self.hidden) - hidden)

    @property
    def parts(self) -> tuple[ModelError, ...]:
        """The errors that apply: the one of communication only if there is any."""
        return (self.computing, self.sending) if self.exposed + self.hidden else (self.computing,)


def step_errors(job: Job, steps: Steps) -> StepErrors:
    """Return the errors of the mean of ``steps``."""
    found = [_step_errors(job, steps, computing) for computing in compute_errors(job)]
    # Known runs add information, so they never widen the interval.
    return found[0] if len(found) == 1 else min(found, key=lambda one: errors_interval(one).width)


def _step_errors(job: Job, steps: Steps, computing: ModelError) -> StepErrors:
    exposed, hidden = float(steps.exposed_comm.mean()), float(steps.overlapped_comm.mean())
    # All time that is not exposed communication counts as computing, input and stragglers too.
    rest = float(steps.step.mean()) - exposed
    # Known runs give the error of whole steps if they show the cost of communication. Otherwise the
    # error is of computing only.
    here = job.scenario.place
    places = {(run.nodes, run.gpus_per_node) for run in job.scenario.known_runs}
    show_communication = _is_fitted(job) or (here.nodes, here.gpus_per_node) in places
    from_runs = show_communication and computing.seed_key == _CALIBRATION
    if from_runs or _is_ordinary(job):
        return whole_step_errors(computing, rest + exposed)
    stages = [stage for calls in job.calls_of.values() for call in calls for stage in call.stages]
    if job.setting.transport is not None:
        sending = ModelError("messages as in the calibration profile")
    elif not stages:
        sending = ModelError("nothing is communicated")
    else:
        # The largest call represents all of them.
        name, nbytes = max(stages, key=lambda stage: stage[1])
        sending = job.collective(name).model_error(nbytes)
    return StepErrors(computing, sending, rest, exposed, hidden)


def whole_step_errors(model_error: ModelError, step: float) -> StepErrors:
    """Return an error that applies to whole steps of ``step`` seconds, communication included."""
    return StepErrors(model_error, ModelError("communication with it"), step, 0.0, 0.0)


def errors_interval(errors: StepErrors) -> PredictionInterval:
    """Return the prediction interval of a mean step with these errors."""
    compute, send = errors.computing.factors(), errors.sending.factors()
    drawn = errors.seconds(compute, send)
    known = np.ones(1)
    separate = (errors.seconds(compute, known), errors.seconds(known, send))
    sources = tuple(
        Source(part.source, *balanced(errors.rest + errors.exposed, *_ends(seconds)))
        for part, seconds in zip(errors.parts, separate, strict=False)
        if part.spread
    )
    return PredictionInterval(
        *balanced(errors.rest + errors.exposed, *_ends(drawn)),
        CONFIDENCE,
        "; ".join(part.basis for part in errors.parts),
        tuple(each for part in errors.parts for each in part.extrapolated),
        sources,
        tuple(each for part in errors.parts for each in part.nearest),
        drawn,
    )


def _ends(drawn: FloatArray) -> tuple[float, float]:
    low, high = np.quantile(drawn, ENDS)
    return float(low), float(high)


def compute_errors(job: Job) -> tuple[ModelError, ...]:
    """Return the alternative errors of compute times; the narrowest one applies."""
    scenario = job.scenario
    runs, ordinary = scenario.known_runs, _is_ordinary(job)
    if runs:
        found = calibrated_error(job, runs, fitted=_is_fitted(job))
        other = _ordinary_error(job) if ordinary else _described_error(job)
        return found, replace(other, nearest=found.nearest)
    if ordinary:
        return (_ordinary_error(job),)
    if scenario.scaling is not None:
        return (ModelError("computing as the calibration says"),)
    if job.model.measured is not None:
        return (_measured_error(job, job.model.measured),)
    return (_described_error(job),)


def _is_ordinary(job: Job) -> bool:
    """Return whether there are several workers, on a cluster that is not tuned."""
    return job.workers > 1 and job.scenario.condition == "ordinary"


def _ordinary_error(job: Job) -> ModelError:
    """Return the error of whole steps on ordinary clusters, hosts and communication included."""
    found = _table()["ordinary"]
    basis = f"steps of {found['series']} series on ordinary clusters"
    of = f"{job.model.name} on an ordinary cluster"
    return ModelError(
        basis, found["spread"], subject=of, source="computing", nearest=tuple(_nearest_steps(job))
    )


def _measured_error(job: Job, measured: MeasuredTimes) -> ModelError:
    """Return the error of layers' measured times: the spread of the measured steps.

    It is zero if only means are known. Outside the measured batches it grows with the doublings
    from the nearest one, like the error of a calibrated scale.
    """
    basis, sizes = "computing as measured in the model's profile", measured.batch_sizes
    workload = job.scenario.workload
    batch = workload.batch_per_gpu * workload.learners_per_gpu
    nearest = min(max(batch, sizes[0]), sizes[-1])
    spread = measured.deviation
    if measured.steps_s:
        basis += f", {plural(len(measured.steps_s), 'step')}"
    if batch == nearest:
        of = normal_spread(spread) if spread else ()
        return ModelError(basis, of, subject=job.model.name, source="computing")
    doublings = abs(math.log2(batch / nearest))
    by_doubling = _table()["calibrated"]["compute scaled"]["batch"]
    known = f"batch {sizes[0]:,}" if len(sizes) == 1 else f"batch {sizes[0]:,} to {sizes[-1]:,}"
    return ModelError(
        f"{basis} at batch {nearest:,}",
        normal_spread(math.hypot(spread, by_doubling * doublings**0.5)),
        (f"layers were measured at {known}, not at {batch:,}",),
        job.model.name,
        source="computing",
    )


def _described_error(job: Job) -> ModelError:
    """Return the error of computing predicted from the description alone."""
    apart = tuple(
        f"no {gpu.architecture} GPU was measured: {gpu.name} computes as {stand_in}"
        for gpu, stand_in in _borrowed_efficiencies(job)
    )
    gpus = sorted(gpu.name for gpu, _ in job.cluster.accelerators)
    families = _table()["families"]
    family = compute_family(job.model, job.scenario.workload)
    if family not in families:
        # This software was not measured on such a model: use rows whose software is not stated.
        family = _software_family("software not said", job.model)
    found = families[family]
    basis = f"computing: {family}, published steps of {found['groups']} publishers, each left out"
    basis += ", its GPU's generation too" if apart else ""
    spread = found["generation_left_out" if apart else "group_left_out"]
    return ModelError(
        basis,
        spread,
        apart,
        f"{job.model.name} on {', '.join(gpus)}",
        source="computing",
        nearest=tuple(_nearest_steps(job)),
    )


def _nearest_steps(job: Job) -> Iterator[str]:
    """Yield published steps of the model on the GPU, or else on GPUs of its generation."""
    gpu, _ = job.cluster.accelerators[0]
    own = [each for each in _table()["measured"] if each[0] == job.model.name]
    here = [each for each in own if each[1] == gpu.name]
    for model, name, generation, steps, low, high in here or own:
        if generation == gpu.architecture:
            yield (
                f"{model} on {name}: {plural(steps, 'published step')}, {low:.2f} to {high:.2f} "
                "times their predictions"
            )


def compute_family(model: Model, workload: WorkloadConfig) -> str:
    """Return the family whose compute errors apply; members share their software."""
    if workload.software == "mlperf":
        return "submissions to MLPerf"
    if is_language_model(model, workload.precision) and (model.tokens or 0) >= _LONG:
        return "language models"
    stated = "software" not in workload.assumed_software
    software = f"{workload.software} software" if stated else "software not said"
    return _software_family(software, model)


def _software_family(software: str, model: Model) -> str:
    return software if is_gpu_bound(model) else f"{software}, unlike convolutions and attention"


def calibrated_error(job: Job, runs: tuple[KnownRun, ...], *, fitted: bool) -> ModelError:
    """Return the error of a step where ``runs`` were measured; it grows with distance.

    Distances are doublings of nodes, of GPUs per node and of the batch. ``fitted``: step constants
    were fitted to the runs, not only a scale of compute times. The error then also grows with their
    leave-one-out error, or with the usual one if they have no residuals.
    """
    scenario, spreads = job.scenario, _table()["calibrated"]
    here = scenario.place
    rates = spreads["step constants" if fitted else "compute scaled"]
    by = np.array([rates[name] for name in ("nodes", "gpus_per_node", "batch")])
    away = variance_away(np.array([here.doublings_from(run) for run in runs]), by)
    nearest = runs[int(away.argmin())]
    variance = rates["least"] ** 2 + away.min()
    where = (
        f"{plural(nearest.nodes, 'node')} with {plural(nearest.gpus_per_node, 'GPU')} each and "
        f"batch {nearest.batch}"
    )
    apart: tuple[str, ...] = ()
    if fitted:
        left = left_out_error(runs, residual_prior(scenario)) or rates["usual_left_out"]
        variance += (rates["left_out"] * left) ** 2
    if fitted and here.nodes > 1 and not any_multi_node(runs):
        variance += _NO_NETWORK**2
        apart = ("no run over several nodes was measured",)
    return ModelError(
        f"computing: {plural(len(runs), 'measured run')}, the nearest on {where}",
        normal_spread(float(variance**0.5)),
        apart,
        job.model.name,
        seed_key=_CALIBRATION,
        source="computing",
        nearest=(f"your run on {where}",),
    )


def variance_away(doublings: FloatArray, by: FloatArray) -> FloatArray:
    """Return the variance of ln(measured / predicted) due to the distance from known runs.

    ``doublings`` has the shape (runs, 3); ``by`` is the standard deviation per doubling of each
    kind. The kinds have independent errors, so their variances add up.
    """
    return np.asarray(doublings @ by**2)


def _is_fitted(job: Job) -> bool:
    """Return whether step constants, including those of communication, were fitted to runs."""
    profile = job.scenario.profile
    return profile is not None and profile.step is not None and bool(profile.known)


def _table() -> dict[str, Any]:
    found: dict[str, Any] = shipped_json("dpsim.engine", "step_residuals.json")
    return found


def _borrowed_efficiencies(job: Job) -> Iterator[tuple[Gpu, str]]:
    """Yield each GPU whose generation was not measured, and the generation used instead."""
    if job.model.measured is not None:
        return  # the layers' times were measured
    for gpu, _ in job.cluster.accelerators:
        stand_in = measured_generation(gpu.architecture)
        if stand_in != gpu.architecture:
            yield gpu, stand_in


def cautions(job: Job) -> tuple[str, ...]:
    """Return warnings about the cluster, and about values that were not measured on it."""
    scenario = job.scenario
    # A measured scale of compute times includes the efficiency.
    borrowed = () if scenario.scaling is not None else _borrowed_efficiencies(job)
    extrapolated = (
        f"how much of its peaks the {gpu.name} ({gpu.architecture}) reaches was not measured: "
        f"extrapolated from {stand_in}"
        for gpu, stand_in in borrowed
    )
    none_slow = (
        slow.why_none_is_slow(job.workers, scenario.run.seed, job.workers_of_nodes, entry)
        for entry, slow in enumerate(scenario.disturbance.slow)
    )
    cautions = (
        *job.cluster.cautions,
        *(caution for caution in none_slow if caution is not None),
        *dict.fromkeys(extrapolated),
        *job.setting.cautions,
    )
    if scenario.profile is None:
        return cautions
    gpus = sorted({part.accelerator.name for part in scenario.cluster.parts})
    return (*cautions, *scenario.profile.cautions(gpus, job.setting.library))
