"""A small Scenario with every shape that the real one has, so that the loader's tests do not move
with the schema.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, field_validator, model_validator

from dpsim.base.config import Config
from dpsim.base.errors import DpsimError
from dpsim.base.registry import Registry
from dpsim.base.units import Bytes, BytesPerSecond, Seconds

PositiveBytes = Annotated[Bytes, Field(gt=0)]

NODES = Registry("node", {"dgx1-v100": 8, "dgx-a100": 8})


class Network(Config):
    nic: Literal["25GbE", "100GbE"] = "25GbE"
    bandwidth: BytesPerSecond | None = None
    oversubscription: float = Field(1.0, ge=1)


class InlineNode(Config):
    gpus: int = Field(ge=1)
    memory: Bytes = Field("16 GB", validate_default=True)


class Cluster(Config):
    nodes: int = Field(1, ge=1, le=100_000)
    node: str | InlineNode = "dgx1-v100"
    network: Network = Network(nic="100GbE")

    @field_validator("node")
    @classmethod
    def _known(cls, node: str | InlineNode) -> str | InlineNode:
        if isinstance(node, str):
            NODES[node]
        return node


class Workload(Config):
    model: str = Field(min_length=1)
    batch_per_gpu: int = Field(32, gt=0)


class Bsp(Config):
    kind: Literal["bsp"] = "bsp"


class Backup(Config):
    kind: Literal["backup"] = "backup"
    extra: int = Field(1, ge=0)
    timeout: Seconds = 0.0


class Ssp(Config):
    kind: Literal["ssp"] = "ssp"
    staleness: int = Field(3, ge=0)
    timeout: Seconds = 0.0


class Sequential(Config):
    kind: Literal["sequential"] = "sequential"


class Buckets(Config):
    kind: Literal["buckets"] = "buckets"
    bucket_size: PositiveBytes | Literal["auto"] = Field("25 MiB", validate_default=True)
    first_bucket: PositiveBytes = Field("1 MiB", validate_default=True)


class Strategy(Config):
    sync: Annotated[Bsp | Backup | Ssp, Field(discriminator="kind")] = Bsp()
    overlap: Sequential | Buckets = Field(Buckets(bucket_size="auto"), discriminator="kind")


class Fault(Config):
    at: Seconds
    link: str = "*"


class Disturbance(Config):
    faults: tuple[Fault, ...] = ()
    slow: dict[str, float] = Field(default_factory=dict)


class Run(Config):
    steps: int = Field(50, ge=1)
    warmup: int = Field(0, ge=0)
    network_model: Literal["rounds", "flows", "auto"] = "auto"
    verbose: bool = False

    @model_validator(mode="after")
    def _warm(self) -> Run:
        if self.warmup >= self.steps:
            raise DpsimError(
                f"warmup must be less than steps, but got {self.warmup} of {self.steps}"
            )
        return self


class Scenario(Config):
    """One experiment."""

    name: str
    cluster: Cluster = Cluster()
    workload: Workload
    strategy: Strategy = Strategy()
    disturbance: Disturbance = Disturbance()
    run: Run = Run()
    calibration: str | None = None


GOOD = """\
name: small
cluster:
  nodes: 4
  network: {nic: 25GbE, bandwidth: 25 Gbit/s}
workload: {model: resnet50, batch_per_gpu: 64}
strategy:
  sync:
    kind: ssp
    staleness: 2
    timeout: 5 ms
  overlap: {kind: buckets, bucket_size: 25 MiB}
disturbance:
  faults:
    - {at: 1 s, link: nic0}
run: {steps: 10}
"""
