"""What a simulated scenario answers: step time, its parts, throughput, traffic, and where they come from."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from dpsim.engine.together import Steps
from dpsim.topology.network import FloatArray

PARTS = ("compute", "input", "encode", "exposed_comm", "straggler_wait", "other")
_RESAMPLES = 1000
_BLOCKS = 500  # long runs are averaged to so many blocks before they are resampled


@dataclass(frozen=True, slots=True)
class Bytes:
    """What one step sends: by the busiest worker, and by all; and the share of its capacity that the busiest link carried."""

    sent_by_busiest: int
    sent_in_total: int
    busiest_link: str | None
    busiest_link_utilisation: float


@dataclass(frozen=True, slots=True, eq=False)
class Result:
    """The answer to one scenario. Times are seconds; arrays have shape (steps, workers)."""

    name: str
    workers: int
    batch_per_worker: int
    steps: Steps
    traffic: Bytes
    calibration: str | dict[str, Any]
    seed: int
    provenance: dict[str, str]

    @property
    def step_time_s(self) -> dict[str, float]:
        """Mean, median and 95th percentile over steps and workers; low and high bound the mean (95 % bootstrap interval)."""
        times = self.steps.step
        low, high = _bootstrap(times.mean(axis=1), self.seed)
        return {
            "mean": float(times.mean()),
            "median": float(np.median(times)),
            "p95": float(np.percentile(times, 95)),
            "low": low,
            "high": high,
        }

    @property
    def parts_s(self) -> dict[str, float]:
        """Mean seconds of each part of a step; they add up to the mean step."""
        return {part: float(np.mean(getattr(self.steps, part, 0.0))) for part in PARTS}

    @property
    def overlapped_comm_s(self) -> float:
        """Mean seconds of communication that ran beside computation and cost nothing."""
        return float(self.steps.overlapped_comm.mean())

    @property
    def throughput_samples_per_s(self) -> float:
        """Samples per second of all workers."""
        return self.workers * self.batch_per_worker / float(self.steps.step.mean())

    @property
    def scaling_efficiency(self) -> float:
        """Throughput over that of as many single workers without communication, jitter included."""
        return float(self.steps.compute.mean() / self.steps.step.mean())

    @property
    def bytes_per_sample(self) -> float:
        """Bytes sent by all workers per sample trained on."""
        return self.traffic.sent_in_total / (self.workers * self.batch_per_worker)

    def to_json(self) -> dict[str, Any]:
        """The JSON object of ``dpsim run --json``; everything but ``provenance`` is the same for the same scenario and seed."""
        return {
            "schema_version": 1,
            "name": self.name,
            "step_time_s": self.step_time_s,
            "parts_s": self.parts_s,
            "overlapped_comm_s": self.overlapped_comm_s,
            "throughput_samples_per_s": self.throughput_samples_per_s,
            "scaling_efficiency": self.scaling_efficiency,
            "workers": self.workers,
            "bytes_sent_per_worker": self.traffic.sent_by_busiest,
            "bytes_sent_total": self.traffic.sent_in_total,
            "bytes_per_sample": self.bytes_per_sample,
            "busiest_link": {"name": self.traffic.busiest_link, "utilisation": self.traffic.busiest_link_utilisation},
            "calibration": self.calibration,
            "seed": self.seed,
            "provenance": self.provenance,
        }


def _bootstrap(means: FloatArray, seed: int) -> tuple[float, float]:
    """The 2.5th and 97.5th percentile of the mean of ``means`` resampled with replacement (percentile bootstrap, Efron 1979)."""
    blocks = np.array([block.mean() for block in np.array_split(means, min(len(means), _BLOCKS))])
    chosen = np.random.default_rng(seed).integers(0, len(blocks), (_RESAMPLES, len(blocks)))
    low, high = np.percentile(blocks[chosen].mean(axis=1), [2.5, 97.5])
    return float(low), float(high)
