"""Random jobs of workers that meet: any strategies, meshes, passes, jitter, fabrics and codecs."""

from pathlib import Path

import numpy as np
from pydantic import ValidationError

from dpsim.base.errors import DpsimError
from dpsim.collectives import algorithm_names
from dpsim.engine import Job, prepare
from dpsim.scenario import Scenario
from dpsim.workload import Layer, MeasuredTimes, Model, ModelProfile
from tools.combinations_page import kinds_of

NODES = [
    ("single-gpu", 1, None),
    ("dgx1-v100", 1, 2),
    ("dgx1-v100", 4, 4),
    ("dgx-a100", 2, 2),
    ("dgx-h100", 8, 8),
]
FABRICS = ["single-switch", "leaf-spine", "fat-tree", "torus", "ring", "full-mesh", "dragonfly"]
ALGORITHMS = [*algorithm_names(), "auto", "butterfly:3"]
CODECS = [kind for kind in kinds_of("compression") if kind != "none"]
OVERLAPS = kinds_of("overlap")
JITTERS = [
    {"kind": "lognormal", "sigma": 0.3},
    {"kind": "gamma", "cv": 0.5},
    {"kind": "pareto"},
]


class Drawing:
    """Draws jobs from one seed; models' profiles are written to ``folder``."""

    def __init__(self, folder: Path, seed: int) -> None:
        self.random = np.random.default_rng(seed)
        self.folder = folder

    def job(self) -> Job:
        """A job that can be prepared and whose workers meet."""
        while True:
            try:
                job = prepare(Scenario.model_validate(self._content()))
                job.gate()
                if not job.independent_workers and not _takes_long(job):
                    return job
            except (DpsimError, ValidationError):
                continue  # incompatible parts: draw again

    def _content(self):
        one = self._one
        node, cards, gpus = one(NODES)
        cluster = {
            "nodes": int(one([1, 2, 2, 3, 4, 4, 5, 8])),
            "node": node,
            "network": {"fabric": one(FABRICS), "nic": "25GbE", "nics_per_node": cards},
        }
        if gpus is not None:
            cluster["gpus_per_node"] = int(gpus)
        workload = {
            "model": {"profile": self._profile()},
            "batch_per_gpu": 8,
            "gradient_accumulation": int(one([1, 1, 2, 3, 5])),
        }
        if self._rarely():
            workload["input"] = {"kind": "storage", "bandwidth": "1 MB/s"}
        overlap = {"kind": one(OVERLAPS)}
        if overlap["kind"] == "buckets":
            overlap |= {"bucket_size": "3 MB", "first_bucket": "1 MB"}
        return {
            "name": "random",
            "cluster": cluster,
            "workload": workload,
            "strategy": {
                "aggregation": self._aggregation(),
                "sync": self._sync(),
                "overlap": overlap,
                "compression": {"kind": "none" if self.random.random() < 0.6 else one(CODECS)},
                "average_loss": self._rarely(),
            },
            "disturbance": self._disturbance(),
            "run": {
                "steps": int(one([2, 3, 5])),
                "warmup": 0,
                "network_model": one(["auto", "auto", "auto", "rounds", "bundle", "flows"]),
                "allow_out_of_memory": True,
            },
        }

    def _aggregation(self):
        one = self._one
        return one(
            [
                {"kind": "allreduce", "algorithm": one(ALGORITHMS), "library": "ideal"},
                {"kind": "allreduce", "algorithm": one(ALGORITHMS)},
                {"kind": "allreduce", "library": one(["nccl", "gloo", "mpi"])},
                self._sharded(),
                self._sharded(),
                {"kind": "parameter-server", "servers": one([None, 1, 2])},
                {"kind": "gossip", "graph": one(["ring", "exponential", "random-pairs", "torus"])},
                {"kind": "host"},
                {"kind": "host", "way": "single-process", "bytes_per_sample": "10 kB"},
            ]
        )

    def _sharded(self):
        one = self._one
        return {
            "kind": "sharded",
            "stage": int(one([1, 2, 3])),
            "library": one(["auto", "ideal"]),
            "unit_size": one(["1 MB", "4 MB", "100 MB"]),
            "shard_group": one(["all", "all", "node", 2]),
            "reshard_after_forward": bool(one([True, False])),
            "gradients": {
                "dtype": one(["fp32", "bf16"]),
                "sync_each_pass": bool(one([True, False])),
            },
        }

    def _sync(self):
        one = self._one
        return one(
            [
                {"kind": "bsp"},
                {"kind": "bsp"},
                {"kind": "backup"},
                {"kind": "ssp", "staleness": int(one([0, 1, 3]))},
                {"kind": "asp"},
                {
                    "kind": "local-sgd",
                    "every": int(one([1, 2, 3])),
                    "switch_after": int(one([0, 2])),
                },
                {"kind": "sma"},
                {
                    "kind": "local-sgd",
                    "every": int(one([1, 2])),
                    "group": one(["all", "node", 1, 2]),
                    "outer": {
                        "every": int(one([1, 2])),
                        "fragments": int(one([1, 2, 3])),
                        "overlap": int(one([0, 1, 2])),
                    },
                },
            ]
        )

    def _disturbance(self):
        disturbance = {}
        if self.random.random() < 0.7:
            disturbance["jitter"] = self._one(JITTERS)
        if self._rarely():
            disturbance["slow"] = [{"fraction": 0.3, "factor": 1.5}]
        return disturbance

    def _profile(self):
        """A model of a few random layers."""
        layers = int(self.random.integers(1, 6))
        elements = self.random.integers(1, 2_000_000, layers)
        path = self.folder / f"{layers}-{int(elements.sum())}.json"
        forward = tuple(self.random.uniform(1e-4, 5e-3, layers))
        times = MeasuredTimes(
            batch_sizes=(8,),
            forward_s=(forward,),
            backward_s=(tuple(2 * each for each in forward),),
            optimizer_s=(1e-3,),
        )
        made = tuple(
            Layer(f"layer{number}", "linear", (int(count),))
            for number, count in enumerate(elements)
        )
        path.write_text(ModelProfile.of(Model("random", made, "sample", times), {}).to_json())
        return str(path)

    def _one(self, choices):
        return choices[int(self.random.integers(len(choices)))]

    def _rarely(self):
        return bool(self.random.random() < 0.15)


def _takes_long(job):
    """Whether its messages are many: each is simulated twice."""
    sent = sum(len(call.stages) for call in job.calls(0))
    return job.by_messages and job.workers**2 * sent > 500
