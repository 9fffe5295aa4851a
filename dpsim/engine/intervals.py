"""How far a predicted step may be off, by what the models leave of measurements no fit saw.

Each family of fitted constants keeps the quantiles of ln(measured / predicted) of machines, models
and sources that were left out of its fit, and of whole generations. Errors of computing and of
communication are drawn from them, independently, and put through the step: what is slower or faster
moves what hides behind what. This is the model's error; the noise of seeds is another matter.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from statistics import NormalDist
from typing import TYPE_CHECKING

import numpy as np

from dpsim.base.arrays import FloatArray
from dpsim.base.doubt import CONFIDENCE, ENDS, Doubt, PredictionInterval
from dpsim.base.shipped import shipped_json
from dpsim.engine.job import Job
from dpsim.engine.steps import Steps
from dpsim.hardware import STEPS, Gpu, KnownRun
from dpsim.network import machine_doubt
from dpsim.workload import extrapolated_from, is_common, is_language_model

if TYPE_CHECKING:
    from dpsim.network.libraries.nccl import NcclMachine


# Standard deviations of ln(measured / predicted) after a calibration: at a known run, for a
# doubling of nodes, of GPUs a node and of the batch, and where no run told the network. From
# calibrations on four rows of each series of adaptdl_steptime.csv.
_LEAST, _NO_NETWORK = 0.09, 0.7
_A_DOUBLING = np.array([0.15, 0.10, 0.07])


@dataclass(frozen=True, slots=True)
class StepDoubts:
    """The errors that a mean step's interval is drawn from, and the seconds that they act on.

    ``rest`` is all of a step but ``exposed`` communication; ``hidden`` communication lies in it.
    """

    computing: Doubt
    sending: Doubt
    rest: float
    exposed: float
    hidden: float

    def seconds(self, compute: FloatArray, send: FloatArray) -> FloatArray:
        """The step under factors on computing and on communication.

        Of parts computing K, exposed communication E and hidden communication O it becomes, with
        factors c and m, c K + max(0, m (E + O) - c O): what hid O seconds still hides c O of them.
        """
        hidden = compute * self.hidden
        return compute * self.rest + np.maximum(0.0, send * (self.exposed + self.hidden) - hidden)

    @property
    def parts(self) -> tuple[Doubt, ...]:
        """Those that matter: of communication only where there is some."""
        return (self.computing, self.sending) if self.exposed + self.hidden else (self.computing,)


def step_doubts(job: Job, steps: Steps) -> StepDoubts:
    """What is known of the errors of the mean of ``steps``."""
    exposed, hidden = float(steps.exposed_comm.mean()), float(steps.overlapped_comm.mean())
    # What is no waiting for the network is put down to computing: input and stragglers, too.
    rest = float(steps.step.mean()) - exposed
    computing = compute_doubt(job)
    stages = [stage for calls in job.calls_of.values() for call in calls for stage in call.stages]
    if _is_calibrated(job):
        sending = Doubt("communication as in the runs that were measured")
    elif job.setting.transport is not None:
        sending = Doubt("messages as in the calibration profile")
    elif not stages:
        sending = Doubt("nothing is communicated")
    else:
        # The collective which carries most at once stands for all of them.
        name, nbytes = max(stages, key=lambda stage: stage[1])
        sending = job.collective(name).doubt(nbytes)
    return StepDoubts(computing, sending, rest, exposed, hidden)


def prediction_interval(job: Job, steps: Steps) -> PredictionInterval:
    """The interval of the mean of ``steps``."""
    doubts = step_doubts(job, steps)
    drawn = doubts.seconds(doubts.computing.factors(), doubts.sending.factors())
    low, high = np.quantile(drawn, ENDS)
    basis = "; ".join(part.basis for part in doubts.parts)
    extrapolated = tuple(each for part in doubts.parts for each in part.extrapolated)
    return PredictionInterval(float(low), float(high), CONFIDENCE, basis, extrapolated, drawn)


def compute_doubt(job: Job) -> Doubt:
    """The error of compute times: none where they were measured."""
    scenario = job.scenario
    if scenario.scaling is not None:
        return Doubt("computing as in your measured step")
    if job.model.measured is not None:
        return Doubt("computing as measured in the model's profile")
    if _is_calibrated(job):
        return _distance_doubt(job)
    apart = [
        f"no {gpu.architecture} GPU was measured: {gpu.name} computes as {stands}"
        for gpu, stands in _borrowed_efficiencies(job)
    ]
    gpus = sorted(gpu.name for gpu, _ in job.cluster.accelerators)
    of = f"{job.model.name} on {', '.join(gpus)}"
    table = shipped_json("dpsim.engine", "step_residuals.json")
    family = _family(job)
    found = table[family]
    basis = f"computing: {family}, published steps of {found['groups']} publishers, each left out"
    left_out = "generation_left_out" if apart else "group_left_out"
    basis += ", its GPU's generation too" if apart else ""
    return Doubt(basis, table["quantiles"], found[left_out], tuple(apart), of)


def _is_calibrated(job: Job) -> bool:
    """Whether step constants were fitted to runs of this cluster."""
    profile = job.scenario.profile
    return profile is not None and profile.step is not None and bool(profile.known)


def _distance_doubt(job: Job) -> Doubt:
    """The error of a calibrated step: what was left of the runs, and more with the distance."""
    profile, scenario = job.scenario.profile, job.scenario
    assert profile is not None
    nodes = [count for count in job.workers_of_nodes if count]
    batch = scenario.workload.batch_per_gpu
    here = KnownRun(nodes=len(nodes), gpus_per_node=max(nodes), batch=batch)
    doublings = np.array([here.doublings_from(run) for run in profile.known])
    away = np.linalg.norm(doublings * _A_DOUBLING, axis=1)
    nearest = profile.known[int(away.argmin())]
    left = profile.residuals.mean_ape if profile.kind == STEPS else 0.0
    spread = float(np.linalg.norm([_LEAST, 1.25 * left, away.min()]))
    quantiles = (0.05, 0.25, 0.5, 0.75, 0.95)
    basis = (
        f"{len(profile.known)} measured runs, the nearest on {nearest.nodes} node(s) with "
        f"{nearest.gpus_per_node} GPU(s) each and batch {nearest.batch}"
    )
    extrapolated: tuple[str, ...] = ()
    if len(nodes) > 1 and all(run.nodes == 1 for run in profile.known):
        spread = float(np.hypot(spread, _NO_NETWORK))
        extrapolated = ("no run over several nodes was measured",)
    drawn = [spread * NormalDist().inv_cdf(level) for level in quantiles]
    return Doubt(basis, quantiles, drawn, extrapolated)


def _family(job: Job) -> str:
    """Whose residuals are those of a job's computing: what they have in common is software."""
    workload = job.scenario.workload
    if workload.software == "mlperf":
        return "submissions to MLPerf"
    if is_language_model(job.model, workload.precision):
        return "language models"
    return "common models" if is_common(job.model) else "all models"


def _borrowed_efficiencies(job: Job) -> Iterator[tuple[Gpu, str]]:
    """Each kind of GPU whose efficiency was not measured, and the generation that stands for it."""
    for gpu, _ in job.cluster.accelerators:
        stands = extrapolated_from(job.model, gpu.architecture)
        if stands is not None:
            yield gpu, stands


def cautions(job: Job) -> tuple[str, ...]:
    """What is to be known of the cluster, and of what was measured elsewhere or nowhere."""
    scenario = job.scenario
    # What was measured has the efficiency in it.
    borrowed = () if scenario.scaling is not None else _borrowed_efficiencies(job)
    extrapolated = (
        f"how much of its peaks the {gpu.name} ({gpu.architecture}) reaches was not measured: "
        f"extrapolated from {stands}"
        for gpu, stands in borrowed
    )
    drawn = (
        slow.meets_nobody(job.workers, scenario.run.seed, job.workers_of_nodes, entry)
        for entry, slow in enumerate(scenario.disturbance.slow)
    )
    said = (
        *job.cluster.cautions,
        *(nobody for nobody in drawn if nobody is not None),
        *dict.fromkeys(extrapolated),
        *job.setting.cautions,
    )
    if scenario.profile is None:
        return said
    gpus = sorted({part.accelerator.name for part in scenario.cluster.parts})
    return (*said, *scenario.profile.cautions(gpus, job.setting.library))


def machine_interval(
    machine: NcclMachine, operation: str, nbytes: float, seconds: float
) -> PredictionInterval:
    """The interval of NCCL's ``operation``, by its own name, on a machine that is described."""
    return machine_doubt(machine, operation, nbytes).around(seconds)
