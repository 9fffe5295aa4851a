"""Through the host: the two naive ways to average gradients.

``copies``: each GPU copies its gradient to its node's CPU, which adds them up; CPUs of several
nodes all-reduce the sums by a ring; each GPU copies the mean back. ``single-process``: one process
drives all GPUs of one node, as torch's DataParallel does: GPU 0 replicates its weights to the
others before every forward pass, hands out their samples, and gathers outputs and gradients.
Source: documentation of torch.nn.DataParallel; Li et al., "PyTorch Distributed", VLDB 13, 2020,
section 2.2.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar, Literal

from pydantic import Field

from dpsim.base.errors import DpsimError
from dpsim.base.units import Bytes, BytesPerSecond
from dpsim.strategy.aggregation.aggregation import AddingRate, Aggregation, Sent, Stages, Turns
from dpsim.strategy.aggregation.collective_call import Calls, CollectiveCall, gradients
from dpsim.strategy.aggregation.setting import Setting
from dpsim.topology import Mesh
from dpsim.workload import Model, Program

_COLLECTIVES = ("broadcast", "scatter", "gather", "reduce")


class HostConfig(Aggregation):
    """Gradients are added up on the CPU, or on GPU 0 of a single process."""

    label: ClassVar[str] = "through the host's memory"
    averaged_by: ClassVar[str] = "host-path"
    through_host: ClassVar[bool] = True
    timed_by_flows: ClassVar[bool] = True  # copies share the links to the processor

    kind: Literal["host"] = Field(
        description="Gradients are added up on the CPU, or on GPU 0 of a single process."
    )
    way: Literal["copies", "single-process"] = Field(
        default="copies",
        description=(
            "copies: gradients are copied to the CPU, averaged there and copied back; "
            "single-process: as in torch's DataParallel."
        ),
    )
    sum_rate: BytesPerSecond = Field(
        default=10e9,
        description=(
            "copies: rate in B/s at which a CPU adds up gradients. The default is an assumption: "
            "about an eighth of the CPU's memory bandwidth, for reads and writes."
        ),
    )
    bytes_per_sample: Bytes = Field(
        default=0.0, description="single-process: bytes per sample that GPU 0 distributes."
    )
    bytes_per_output: Bytes = Field(
        default=0.0, description="single-process: output bytes per sample that GPU 0 gathers."
    )

    @property
    def adding_rate(self) -> AddingRate | None:
        """The processors' summing rate, if gradients are copied to them."""
        if self.single_process:
            return None
        return AddingRate("sum_rate", self.sum_rate, "the CPUs' summing rate")

    @property
    def single_process(self) -> bool:  # type: ignore[override]
        return self.way == "single-process"

    @property
    def single_worker_communicates(self) -> bool:
        """Whether a single worker communicates: a GPU still copies to the CPU and back.

        A single process with one GPU has nothing to copy.
        """
        return self.way == "copies"

    def calls(self, model: Model, program: Program, batch: int, mesh: Mesh) -> Calls:
        """Return the copies of gradients by way of the CPU, or the transfers of GPU 0.

        A single process sends samples and weights before a pass, and gathers outputs after forward
        and gradients after backward.
        """
        if self.way == "copies":
            return gradients(model, program, "host-path")
        samples = round(batch * self.bytes_per_sample)
        outputs = round(batch * self.bytes_per_output)
        weights, trained = (
            model.parameter_bytes * each for each in (model.parameters, model.trained)
        )
        passes = []
        for number in range(program.passes):
            begin = program.begin(number)
            turn = program.turn(number)
            end = program.begin(number + 1)
            # Scatter, replicate, gather, as in torch.nn.parallel.DataParallel.forward. The backward
            # of its replication adds the replicas' gradients on GPU 0.
            passes += [
                CollectiveCall("samples", samples, begin, begin, "scatter", "samples"),
                CollectiveCall("replicate", weights, begin, begin, "broadcast", "weights"),
                CollectiveCall("outputs", outputs, turn, turn, "gather", "samples"),
                CollectiveCall("gradients", trained, end, end, "reduce", "weights"),
            ]
        return tuple(passes)

    def collectives(self, setting: Setting) -> Mapping[str, Turns]:
        """Return the path through the CPU, or for a single process, trees from and to GPU 0.

        Raises DpsimError for a single process on several nodes.
        """
        if self.way == "single-process":
            if setting.cluster.nodes > 1:
                raise DpsimError(
                    "strategy.aggregation.way: must be copies on several nodes (a single process "
                    f"has one), but got {self.way!r} on {setting.cluster.nodes} nodes"
                )
            return {name: (setting.timed("tree", name),) for name in _COLLECTIVES}
        from dpsim.network import HostPathModel
        from dpsim.topology import Hosts

        hosts = Hosts(setting.config)
        conditions = setting.conditions(hosts.network, hosts.workers)
        return {"host-path": (HostPathModel(hosts, self.sum_rate, conditions),)}

    def stages(self, collective: str, sent: Sent, mesh: Mesh) -> Stages:
        """Return the stages; a single process scatters and gathers the payloads of all workers."""
        shares = mesh.ranks if collective in ("scatter", "gather") else 1
        return tuple((collective, shares * nbytes) for nbytes in sent.encoded)

    def payloads(self, workers: int, *, sums_in_flight: bool) -> int:
        """Return 1: a worker decodes the sum."""
        return 1
