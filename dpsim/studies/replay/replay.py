"""Train a small model for real, with the timing of a scenario.

The simulation decides which worker reads which parameters when, and real gradients are computed on
them. The trained model is ``replay``'s; its gradients take the time of the scenario's model. Codecs
are applied to whole gradients. A worker's learners form a larger batch if gradients are averaged,
and have their own models if models are.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from dpsim.base.arrays import IntArray, RealArray
from dpsim.base.lazy import Shown
from dpsim.base.provenance import provenance
from dpsim.engine import (
    Gradients,
    Job,
    Log,
    Recording,
    Steps,
    bytes_in_step,
    one_time_costs,
    run_scenario,
)
from dpsim.scenario import ReplayConfig, Scenario
from dpsim.strategy.compression import Codec, NoCompressionConfig
from dpsim.studies.replay.aggregators import Aggregate, AllReduceAggregator, ServerAggregator
from dpsim.studies.replay.codec_links import CodecLink, CodecMean
from dpsim.studies.replay.curve import Curve, CurveRecorder, Progress, finite
from dpsim.studies.replay.gradient_history import GradientHistory, gradient_histories
from dpsim.studies.replay.own_models import CentralModel, Gossip, LocalSgd, OwnModels
from dpsim.studies.replay.pairs import Pairs
from dpsim.studies.replay.shared_parameters import SharedParameters
from dpsim.studies.replay.trainer import Trainer
from dpsim.studies.replay.two_levels import TwoLevels

_PLAIN = NoCompressionConfig(kind="none")


@dataclass(frozen=True, slots=True, eq=False)
class Replay(Shown):
    """The outcome of a replayed training.

    ``gradients`` has a row for each gradient that was begun; ``parameters`` (P,) are the final
    ones.

    ``versions`` is the staleness in updates of each gradient used, as replayed; `steps.versions` is
    the engine's own count.
    """

    name: str
    config: ReplayConfig
    workers: int
    learners: int
    seed: int
    curve: Curve
    parameters: RealArray
    gradients: Gradients
    times: RealArray
    steps: Steps
    shared: bool
    own_reads: bool
    versions: IntArray

    def __repr__(self) -> str:
        end = self.curve.points[-1]
        return f"<Replay {self.name}: accuracy {end.accuracy:.1%} after {end.time_s:.4g} s>"

    @property
    def time_to_target_s(self) -> float | None:
        """The simulated seconds until the target accuracy was measured, if it was."""
        point = self.curve.first(self.config.target_accuracy)
        return None if point is None else point.time_s

    @property
    def staleness(self) -> dict[str, float]:
        """The staleness of the gradients used, in updates: mean and maximum."""
        late = self.versions if len(self.versions) else np.zeros(1)
        return {"mean": float(late.mean()), "max": int(late.max())}

    def gradient_histories(self) -> list[GradientHistory]:
        """Return the history of each gradient."""
        return gradient_histories(
            self.gradients, self.times, shared=self.shared, own_reads=self.own_reads
        )

    def to_json(self) -> dict[str, Any]:
        """Return the JSON object of ``dpsim converge --json``."""
        end, reached = self.curve.points[-1], self.curve.first(self.config.target_accuracy)
        return {
            "schema_version": 1,
            "kind": "converge",
            "name": self.name,
            "final_accuracy": end.accuracy,
            "final_loss": finite(end.loss),
            "target_accuracy": self.config.target_accuracy,
            "time_to_target_s": None if reached is None else reached.time_s,
            "samples_to_target": None if reached is None else reached.samples,
            "bytes_to_target": None if reached is None else reached.bytes,
            "time_s": end.time_s,
            "samples": end.samples,
            "bytes": end.bytes,
            "workers": self.workers,
            "learners_per_gpu": self.learners,
            "replay": self.config.model_dump(exclude={"seed"}),
            "versions": self.staleness,
            "curve": self.curve.to_json(),
            "seed": self.seed,
            "provenance": provenance(),
        }


def replay(scenario: Scenario, progress: Progress = lambda what, done, total: None) -> Replay:
    """Train the model of ``scenario.replay`` with the timing of ``scenario``.

    The same scenario and seed give the same result. ``progress`` is called with the current
    activity, the amount done, and the total. Raises DpsimError like `simulate`.
    """
    return replay_with_recorder(scenario, progress, CurveRecorder)[0]


def replay_with_recorder(
    scenario: Scenario, progress: Progress, recorded_by: type[CurveRecorder]
) -> tuple[Replay, Trainer, CurveRecorder]:
    """Train like `replay`; also return the trainer and the recorder. Raises DpsimError."""
    config = scenario.replay
    # Learning begins with the first step, so none of the steps is warm-up.
    settings = scenario.run.model_copy(update={"steps": config.steps, "warmup": 0})
    run = run_scenario(
        scenario.model_copy(update={"run": settings}),
        Recording(versions=True),
        lambda done: progress("simulating", min(done, config.steps), config.steps),
    )
    job, log = run.job, run.log
    seed = scenario.run.seed if config.seed is None else config.seed
    learners = scenario.workload.learners_per_gpu
    if _learners_have_models(job):
        workers, batch = job.workers * learners, config.batch
    else:
        workers, batch = job.workers, config.batch * learners
    dataset = scenario.workload.dataset
    shards = dataset is not None and dataset.partition == "disjoint"
    trainer = Trainer(config, workers, batch, seed, apart=shards)
    gradients = log.gradients
    recorder = recorded_by(trainer, len(log.times), _bytes_after(job, gradients, log), progress)
    trained = _Training(job, trainer, gradients, log, recorder)
    with np.errstate(over="ignore", invalid="ignore"):  # training may diverge: a valid answer
        parameters = trained.run()
    result = Replay(
        scenario.name,
        config,
        job.workers,
        learners,
        seed,
        Curve(tuple(recorder.points)),
        parameters,
        gradients,
        np.array(log.times),
        run.steps,
        job.one_version,
        trained.own_reads,
        trained.versions,
    )
    return result, trainer, recorder


def _learners_have_models(job: Job) -> bool:
    """Return whether each learner has a model of its own."""
    strategy = job.scenario.strategy
    return not strategy.sync.one_version and strategy.aggregation.one_version


def _bytes_after(job: Job, gradients: Gradients, log: Log) -> RealArray:
    """Return the total bytes sent when each update is applied.

    For asynchronous workers, count the mean iteration for each gradient handed over.
    """
    # Steps whose exchanges differ, such as gossip's, repeat after this many.
    turns = max((len(models) for models in job.collectives.values()), default=1)
    if not job.independent_workers:
        steps = range(len(log.times))
        kinds = [(job.exchange(step), step % turns) for step in steps]
        # Steps of a kind send the same, so each kind is counted once.
        sent = {kind: bytes_in_step(job, kinds.index(kind)) for kind in set(kinds)}
        return np.cumsum([sent[kind] for kind in kinds])
    each = np.mean([bytes_in_step(job, turn) for turn in range(turns)]) / job.workers

    # By an update's time, every gradient handed over has been sent, used or not.
    handed_over = np.sort(gradients.done[~np.isnan(gradients.done)])
    return np.asarray(each * np.searchsorted(handed_over, log.times, side="right"))


class _Training:
    """Chooses the replay for a job, and runs it; ``versions`` is the gradients' staleness."""

    def __init__(
        self, job: Job, trainer: Trainer, gradients: Gradients, log: Log, recorder: CurveRecorder
    ) -> None:
        self._job = job
        self._trainer = trainer
        self._gradients = gradients
        self._log = log
        self._recorder = recorder
        strategy = job.scenario.strategy
        self._codec: Codec = _PLAIN if job.silent else strategy.compression
        self.own_reads = job.one_version and not job.independent_workers and strategy.sync.lag > 0
        self.versions: IntArray = np.zeros(0, dtype=np.int64)

    def run(self) -> RealArray:
        """Train; return the final parameters."""
        if self._job.independent_workers and not self._job.one_version:
            pairs = Pairs(self._trainer, self._codec)
            parameters = pairs.run(self._log.acts, self._recorder)
            self.versions = np.array(pairs.stale)
            return self._with_consensus(parameters)
        if self._job.one_version:
            return self._train_shared()
        return self._with_consensus(self._own_models().run(self._log.times, self._recorder))

    def _train_shared(self) -> RealArray:
        update, read = self._gradients.update, self._gradients.read
        used = (update >= 0) & (update < len(self._log.times))
        self.versions = (update - read)[used]
        shared = SharedParameters(
            self._trainer,
            self._gradients,
            self._aggregate(),
            self._reply_link(),
            own_reads=self.own_reads,
        )
        return shared.run(self._log.times, self._recorder)

    def _reply_link(self) -> CodecLink:
        """Return the link by which servers send parameters."""
        trainer = self._trainer
        codec = (
            self._codec if self._job.scenario.strategy.aggregation.compresses_replies else _PLAIN
        )
        # Senders 0 to workers - 1 are the workers, so the servers use the next number.
        return CodecLink(codec, trainer.network.parameters, trainer.seed, sender=trainer.workers)

    def _aggregate(self) -> Aggregate:
        config, workers = self._trainer.config, self._trainer.workers
        elements, seed = self._trainer.network.parameters, self._trainer.seed
        total, gate = config.reduction == "sum", self._job.gate()
        if self._job.independent_workers:
            links = [CodecLink(self._codec, elements, seed, worker) for worker in range(workers)]
            return ServerAggregator(links, config.momentum, gathers=gate.gathers, total=total)
        mean = CodecMean(self._codec, workers, elements, seed)
        return AllReduceAggregator(mean, workers, config.momentum, drops=gate.drops, total=total)

    def _own_models(self) -> OwnModels:
        strategy = self._job.scenario.strategy
        kind: type[OwnModels] = LocalSgd
        if not strategy.aggregation.one_version:
            kind = Gossip
        elif strategy.sync.outer_step is not None:
            kind = TwoLevels
        elif strategy.sync.central_model:
            kind = CentralModel
        return kind(self._trainer, self._job, self._codec)

    def _with_consensus(self, parameters: RealArray) -> RealArray:
        """Add the time of the last round, in which gossiping replicas are averaged."""
        consensus = one_time_costs(self._job).consensus_s
        if consensus:
            last = self._recorder.points[-1]
            self._recorder.points.append(
                last._replace(time_s=last.time_s + consensus, disagreement=0.0)
            )
        return parameters
