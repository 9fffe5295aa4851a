"""The result of a simulated scenario: step time, its parts, throughput and traffic."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from dpsim.base.arrays import FloatArray
from dpsim.base.budget import limited
from dpsim.base.lazy import Shown
from dpsim.base.uncertainty import PredictionInterval
from dpsim.base.units import TIME, human
from dpsim.engine.job import Job
from dpsim.engine.link_loads import StepTraffic
from dpsim.engine.memory import MemoryUse
from dpsim.engine.one_time import OneTimeCosts, one_time_costs
from dpsim.engine.spending import Cost, Energy, Spending, Total, samples_to_pay, spending
from dpsim.engine.steps import PARTS, PartName, Steps, distribution, spread
from dpsim.engine.to_target import TimeToTarget
from dpsim.engine.utilisation import Utilisation, work
from dpsim.strategy.aggregation import LibraryChoice
from dpsim.strategy.sync import DROPPED
from dpsim.workload import Epoch, LearnersRow, Pipeline

if TYPE_CHECKING:
    from dpsim.disturbance import Goodput

_BLOCKS = 500  # long runs are averaged to this many blocks before they are resampled
_FEW_BLOCKS = 10  # so few that blocks are long enough to be independent


@dataclass(frozen=True, eq=False)
class Result(Shown):
    """The result of one scenario. Times are seconds; arrays have shape (steps, workers).

    ``engine``: the engine that simulated it; ``approximation``: what that engine neglects.
    ``independent_workers``: each worker was simulated as a process of its own. ``own_pace``:
    workers need not keep pace with the slowest, so steps of different workers may differ in length.
    ``unsettled``: why more steps would have another mean; None if they are steady.
    """

    job: Job
    name: str
    workers: int
    batch_per_worker: int
    steps: Steps
    traffic: StepTraffic
    calibration: str | dict[str, Any]
    seed: int
    memory: MemoryUse | None = None
    pipeline: Pipeline | None = None
    epoch: Epoch | None = None
    learners: tuple[LearnersRow, ...] = ()
    goodput: Goodput | None = None
    notes: tuple[str, ...] = ()
    libraries: tuple[LibraryChoice, ...] = ()
    software: dict[str, Any] | None = None
    cautions: tuple[str, ...] = ()
    independent_workers: bool = False
    engine: str = "vector"
    approximation: str | None = None
    own_pace: bool = False
    unsettled: str | None = None
    to_target: TimeToTarget | None = None
    interval: PredictionInterval | None = None

    def __repr__(self) -> str:
        step = human(self.step_time_s["mean"], TIME)
        return f"<Result {self.name}: a step takes {step} on {self.workers:,} workers>"

    @property
    def mean_step(self) -> float:
        """Mean seconds of a step, over steps and workers."""
        return float(self.steps.step.mean())

    @cached_property
    def step_time_s(self) -> dict[str, float]:
        """Mean, median and 95th percentile over steps and workers.

        ``low`` and ``high`` bound the mean: its 95 % bootstrap interval, by percentiles.
        """
        times = self.steps.step
        low, high = np.percentile(self.resampled_means, [2.5, 97.5])
        return {
            "mean": float(times.mean()),
            "median": float(np.median(times)),
            "p95": float(np.percentile(times, 95)),
            "low": float(low),
            "high": float(high),
        }

    def step_time_within_s(self, shares: FloatArray) -> FloatArray:
        """Return the percentiles ``shares`` (%) of the step times of all workers (s)."""
        return np.asarray(np.percentile(self.steps.step, shares))

    @property
    def resampled_means(self) -> FloatArray:
        """Mean step times (s) of bootstrap resamples (Efron 1979)."""
        # An asynchronous worker's step affects the others for several steps.
        blocks = _FEW_BLOCKS if self.independent_workers else _BLOCKS
        return self.steps.resampled_means(self.seed, blocks)

    @property
    def parts_s(self) -> dict[PartName, float]:
        """Mean seconds of each part of a step; they add up to the mean step."""
        # Simulated steps have no "other" time.
        return {part: float(np.mean(getattr(self.steps, part, 0.0))) for part in PARTS}

    @cached_property
    def counted(self) -> NDArray[np.bool_]:
        """Whether a worker's gradient of a step was used, (steps, workers)."""
        return np.asarray(self.steps.versions != DROPPED)

    @property
    def overlapped_comm_s(self) -> float:
        """Mean seconds of communication that overlapped with computing and so cost no time."""
        return float(self.steps.overlapped_comm.mean())

    @property
    def steady(self) -> bool:
        """Whether the steps had settled, so that more of them would have the same mean."""
        return self.unsettled is None

    @property
    def warnings(self) -> list[str]:
        """Warnings about the result, a sentence each."""
        above = self.utilisation.above_peak
        memory = [] if self.memory is None else self.memory.warnings
        slower = self.workers > 1 and self.scaling_efficiency * self.workers < 1
        found = [
            *self.cautions,
            *([f"all {self.workers:,} workers are slower than one alone"] if slower else []),
            *([] if above is None else [above]),
            *(f"memory: {warning}" for warning in memory),
        ]
        if self.unsettled is None:
            return found
        return [
            *found,
            f"steps had not settled: {self.unsettled}; raise run.warmup and run.steps until they "
            "have",
        ]

    def indistinguishable_from(self, other: Result, own_figure: float, other_figure: float) -> bool:
        """Return whether the models' errors leave open which of two figures is smaller.

        The figures are proportional to the mean steps. Errors that both results share, of the same
        GPU or network, cancel.
        """
        if self.interval is None or other.interval is None:
            return False
        own, others = (
            figure / result.step_time_s["mean"]
            for figure, result in ((own_figure, self), (other_figure, other))
        )
        return self.interval.indistinguishable_from(other.interval, others / own)

    @cached_property
    def throughput_samples_per_s(self) -> float:
        """Samples per second of all workers whose gradients counted.

        Workers that need not keep pace with one another count at their own pace.
        """
        counted = self.counted
        # Workers that keep pace take equally many steps: one batch each in a mean step.
        if not self.own_pace and counted.all():
            return self.workers * self.batch_per_worker / self.mean_step
        gradients_per_s = counted.sum(axis=0) / self.steps.step.sum(axis=0)
        return self.batch_per_worker * float(gradients_per_s.sum())

    @property
    def step_of_all_s(self) -> float:
        """Seconds in which the workers together take as many steps as there are workers.

        The mean step, unless workers run at their own pace, where fast ones take more steps.
        """
        return self.steps.time_of_all() if self.own_pace else self.mean_step

    @property
    def scaling_efficiency(self) -> float:
        """Throughput relative to as many single workers without communication, including jitter.

        If workers need not keep pace, each of the single workers runs at its own pace too.
        """
        compute = self.steps.compute
        if self.own_pace:
            paces = 1 / compute.mean(axis=0)
        else:
            paces = np.full(self.workers, 1 / compute.mean())
        return self.throughput_samples_per_s / (self.batch_per_worker * float(paces.sum()))

    @property
    def epoch_time_s(self) -> float | None:
        """Seconds until all workers together have taken the steps of an epoch; None without one."""
        return None if self.epoch is None else self.epoch.steps * self.step_of_all_s

    @cached_property
    def utilisation(self) -> Utilisation:
        """Tokens per second and shares of the GPUs' peak at this throughput."""
        job = self.job
        each = work(job.scenario, job.model, job.cluster)
        return each.at(self.throughput_samples_per_s)

    @property
    def bytes_per_sample(self) -> float:
        """Bytes sent by all workers per sample whose gradient counted."""
        # The time of the traffic may differ from the workers' mean step.
        samples = self.throughput_samples_per_s * self.traffic.links.time_s
        return self.traffic.sent_in_total / samples if samples else 0.0

    @cached_property
    def staleness(self) -> dict[str, Any]:
        """The clock gap, in iterations, and the version staleness, in updates, of used gradients.

        The two are separate measures.
        """
        counted = self.counted
        used = counted.mean()
        if self.own_pace:
            # Workers weigh by their pace.
            used = np.average(counted.mean(axis=0), weights=1 / self.steps.step.mean(axis=0))
        # A dropped gradient has a mark instead of a number of versions.
        versions = self.steps.versions[counted]
        return {
            "clock_gap": distribution(self.steps.clock_gap.ravel()),
            "versions": distribution(versions),
            "dropped": float(1 - used),
        }

    @property
    def waiting_s(self) -> dict[str, float]:
        """Seconds that a worker waits for others in a step.

        Mean, median, 95th percentile and maximum, over steps and workers.
        """
        return spread(self.steps.straggler_wait)

    @property
    def step_time_by_worker_s(self) -> dict[str, float]:
        """The workers' mean step times: mean, median, 95th percentile and maximum."""
        return spread(self.steps.step.mean(axis=0))

    @cached_property
    @limited()
    def one_time(self) -> OneTimeCosts:
        """The one-time costs of the run, computed on demand."""
        return one_time_costs(self.job)

    @cached_property
    def spending(self) -> Spending:
        """The costs of the cluster per second."""
        return spending(self.job.scenario)

    @property
    def cost(self) -> Cost | None:
        """The cost of the steps; None without a price."""
        price = self.job.scenario.cost.price_per_gpu_hour
        if price is None:
            return None
        return self.spending.cost(
            price,
            step_s=self.step_of_all_s,
            samples_per_s=self.throughput_samples_per_s,
            tokens_per_s=self.utilisation.tokens_per_s,
            to_target_s=self.time_to_target_s,
        )

    @property
    def energy(self) -> Energy | None:
        """The energy of the steps; None if a GPU's power is not known."""
        # Encoding and decoding run on the GPU too; all else is waiting.
        busy = (self.steps.compute + self.steps.encode).mean(axis=0) / self.mean_step
        return self.spending.energy(
            step_s=self.step_of_all_s,
            busy_share=float(np.average(busy, weights=self._watts)),
            samples_per_s=self.throughput_samples_per_s,
            to_target_s=self.time_to_target_s,
        )

    @property
    def _watts(self) -> FloatArray | None:
        """The power of each worker's GPUs; None if all have the same."""
        cluster = self.job.cluster
        powers = np.array(
            [gpu.power.value if gpu.power else 0.0 for gpu, _ in cluster.accelerators]
        )
        if self.spending.config.power_per_gpu is not None or (powers == powers[0]).all():
            return None
        watts: FloatArray = powers[cluster.accelerator_of].reshape(self.job.workers, -1).sum(axis=1)
        return watts

    @property
    def total(self) -> Total | None:
        """Time, price and energy of the scenario's tokens, samples or epochs, if it has any."""
        samples = samples_to_pay(self.job.scenario, self.job.model.tokens)
        if samples is None:
            return None
        time_s = samples / self.throughput_samples_per_s
        epochs = self.job.scenario.cost.epochs
        if epochs is not None and self.epoch is not None:
            # An epoch has whole steps: the last samples are dropped, or padded.
            samples = epochs * (self.epoch.distinct + self.epoch.repeated)
            time_s = epochs * self.epoch.steps * self.step_of_all_s
        useful = 1.0 if self.goodput is None else self.goodput.useful
        return self.spending.total(samples, time_s=time_s / useful, energy=self.energy)

    @property
    def price_per_million_samples(self) -> float | None:
        """The price in the spending's currency; None without a stated or a list price."""
        return self.spending.price(1e6 / self.throughput_samples_per_s)

    @property
    def time_to_target_s(self) -> float | None:
        """Seconds of training to the model's target; None if the number of steps is not known."""
        training = None if self.to_target is None else self.to_target.training
        return None if training is None else training.time_s

    @property
    def input_bound(self) -> bool:
        """Whether input limits the steps.

        True if some worker's pipeline delivers batches more slowly than the slowest worker computes
        and sends.
        """
        return self.pipeline is not None and self.pipeline.limits(self.steps.busiest())

    @cached_property
    def provenance(self) -> dict[str, str]:
        """The versions that produced the result, and the date of the first request for them."""
        from dpsim.base.provenance import provenance

        return provenance()

    def _input_json(self) -> dict[str, Any] | None:
        if self.pipeline is None:
            return None
        period = float(self.pipeline.period().max())
        most = self.batch_per_worker / period if period > 0 else None
        return {"slowest_stage": self.pipeline.slowest_stage(), "most_samples_per_s_per_gpu": most}

    def to_json(self) -> dict[str, Any]:
        """Return the JSON object of ``dpsim run --json``.

        Everything but ``provenance`` is the same for the same scenario and seed.
        """
        return {
            "schema_version": 1,
            "kind": "run",
            "name": self.name,
            "step_time_s": self.step_time_s,
            "parts_s": self.parts_s,
            "overlapped_comm_s": self.overlapped_comm_s,
            "step_time_by_worker_s": self.step_time_by_worker_s,
            "waiting_s": self.waiting_s,
            "staleness": self.staleness,
            "once_s": {"startup": self.one_time.startup_s, "consensus": self.one_time.consensus_s},
            "throughput_samples_per_s": self.throughput_samples_per_s,
            **asdict(self.utilisation),
            "scaling_efficiency": self.scaling_efficiency,
            "workers": self.workers,
            "bytes_sent_per_worker": self.traffic.sent_by_busiest,
            "bytes_sent_total": self.traffic.sent_in_total,
            "bytes_per_sample": self.bytes_per_sample,
            "algorithms": list(self.traffic.algorithms),
            "libraries": [asdict(choice) for choice in self.libraries],
            "software": self.software,
            "busiest_link": {
                "name": self.traffic.busiest_link,
                "utilisation": self.traffic.busiest_link_utilisation,
            },
            "memory": None if self.memory is None else self.memory.to_json(),
            "input_bound": self.input_bound,
            "input": self._input_json(),
            "epoch": None
            if self.epoch is None
            else {**asdict(self.epoch), "time_s": self.epoch_time_s},
            "learners": [asdict(row) for row in self.learners],
            "goodput": None if self.goodput is None else asdict(self.goodput),
            "to_target": None if self.to_target is None else self.to_target.to_json(),
            "cost": None if self.cost is None else asdict(self.cost),
            "energy": None if self.energy is None else asdict(self.energy),
            "total": None if self.total is None else asdict(self.total),
            "notes": list(self.notes),
            "engine": self.engine,
            "approximation": self.approximation,
            "steady": self.steady,
            "warnings": self.warnings,
            "interval_s": None if self.interval is None else self.interval.to_json(),
            "calibration": self.calibration,
            "seed": self.seed,
            "provenance": self.provenance,
        }
