"""Parameter servers: workers push gradients to them and pull the parameters that they update.

Servers add up gradients and update their share of the parameters. Parameters are divided by size
over the servers, which run on the CPUs of the workers' nodes (``colocated``) or on nodes of their
own. Asynchronous workers (``sync: ssp, asp, backup``) push when a gradient is ready and pull when
they begin an iteration. Sources: Li et al., "Scaling distributed machine learning with the
parameter server", OSDI 2014; see `dpsim.network.servers`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, ClassVar, Literal

import numpy as np
from pydantic import Field, PositiveInt, model_validator

from dpsim.base.units import BytesPerSecond
from dpsim.strategy.aggregation.aggregation import (
    AddingRate,
    Aggregation,
    Coordination,
    Sent,
    Stages,
    Turns,
)
from dpsim.strategy.aggregation.collective_call import Calls, gradients
from dpsim.strategy.aggregation.setting import Setting
from dpsim.topology import Mesh
from dpsim.workload import Model, Program

if TYPE_CHECKING:
    from dpsim.network import Servers

_COLLECTIVE = "push-pull"


class ParameterServerConfig(Aggregation):
    """Servers hold the parameters: workers push gradients and pull updated parameters."""

    label: ClassVar[str] = "parameter servers"
    coordination: ClassVar[Coordination] = Coordination.SERVERS
    averaged_by: ClassVar[str] = _COLLECTIVE
    updates_elsewhere: ClassVar[bool] = True
    single_worker_communicates: ClassVar[bool] = (
        True  # servers apply the update of a single worker, too
    )
    timed_by_flows: ClassVar[bool] = True  # pushes and pulls share the servers' links
    also_called: ClassVar[tuple[str, ...]] = ("ps",)

    kind: Literal["parameter-server"] = Field(
        description="Servers hold the parameters: workers push gradients and pull parameters."
    )
    servers: PositiveInt | None = Field(
        default=None, le=65_536, description="Number of servers; one for each node if left out."
    )
    colocated: bool = Field(
        default=True,
        description="true: servers run on the workers' nodes in turn; false: on their own nodes.",
    )
    update_rate: BytesPerSecond = Field(
        default=10e9,
        description=(
            "Rate in B/s at which a server adds up and applies gradients. The default is an "
            "assumption: about an eighth of a CPU's memory bandwidth, for reads and writes."
        ),
    )
    replicas: PositiveInt = Field(
        default=1,
        le=64,
        description="Number of servers that hold each share of the parameters (1: no replication).",
    )
    compress_pull: bool = Field(
        default=False, description="Pulled parameters are compressed like gradients."
    )

    @model_validator(mode="after")
    def _check_replicas(self) -> ParameterServerConfig:
        if self.servers is not None and self.replicas > self.servers:
            raise ValueError(
                f"replicas must be at most the {self.servers} servers, but got {self.replicas}"
            )
        return self

    @property
    def adding_rate(self) -> AddingRate:
        """The servers' update rate."""
        return AddingRate("update_rate", self.update_rate, "the servers' update rate")

    def server_hosts(self, hosts: int) -> tuple[int, ...]:
        """Return the workers' hosts in turn, or hosts of the servers' own."""
        first = 0 if self.colocated else hosts
        servers = range(self.servers or hosts)
        return tuple(first + (server % hosts if self.colocated else server) for server in servers)

    @property
    def compresses_replies(self) -> bool:
        return self.compress_pull

    def calls(self, model: Model, program: Program, batch: int, mesh: Mesh) -> Calls:
        """Return a push and pull per parameter tensor, in the order of ready gradients."""
        return gradients(model, program, _COLLECTIVE)

    def collectives(self, setting: Setting) -> Mapping[str, Turns]:
        """Return the push and the pull."""
        from dpsim.network import ServersModel

        servers = self.place(setting)
        return {"push": (ServersModel(servers, "push"),), "pull": (ServersModel(servers, "pull"),)}

    def stages(self, collective: str, sent: Sent, mesh: Mesh) -> Stages:
        """Return a push of the encoded payload, then a pull of parameters."""
        if collective != _COLLECTIVE:
            return tuple((collective, nbytes) for nbytes in sent.encoded)
        # Replies are parameters, whose loss no error feedback compensates. They are therefore sent
        # uncompressed unless the scenario asks otherwise.
        back = sum(sent.encoded) if self.compress_pull else sent.plain
        return (("push", sum(sent.encoded)), ("pull", back))

    def payloads(self, workers: int, *, sums_in_flight: bool) -> int:
        """Return 1 if replies are compressed, else 0; servers decode the pushes."""
        return int(self.compress_pull)

    def startup(self, model: Model, state_bytes: int, setting: Setting) -> float:
        """Return the seconds of a pull of the model; the optimiser's state stays on the servers."""
        from dpsim.network import ServersModel

        pull = ServersModel(self.place(setting), "pull")
        return pull.seconds_from_common_start(model.parameters * model.parameter_bytes)

    def place(self, setting: Setting) -> Servers:
        """Return the servers on the cluster's CPUs, the same objects on every call.

        Raises DpsimError if the network has no place for them.
        """
        if self not in setting.placed:
            setting.placed[self] = self._place(setting)
        return setting.placed[self]

    def _place(self, setting: Setting) -> Servers:
        from dpsim.network import Servers
        from dpsim.topology import Hosts

        nodes = setting.cluster.nodes
        count = self.servers or nodes
        hosts = Hosts(setting.config, 0 if self.colocated else count)
        chosen = hosts.cpus[np.array(self.server_hosts(nodes))]
        conditions = setting.conditions(hosts.network, hosts.workers)
        # The default number of servers, one a node, may be less than the replicas.
        replicas = min(self.replicas, count)
        return Servers(hosts.network, hosts.workers, chosen, self.update_rate, replicas, conditions)
