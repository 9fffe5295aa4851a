"""How long transfers take: by rounds, flows or closed forms, or as libraries run them.

It uses topology and collectives, and does not know why something is sent.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from dpsim.base.lazy import on_demand

if TYPE_CHECKING:
    from dpsim.network.closed_form import ClosedFormModel
    from dpsim.network.collective_models import CollectiveModel
    from dpsim.network.conditions import Background, Conditions, LinkChange
    from dpsim.network.fastest import FastestModel
    from dpsim.network.flows import FluidNetwork, SharedNetwork
    from dpsim.network.flows_model import FlowsModel
    from dpsim.network.host_path import HostPathModel
    from dpsim.network.in_network import InNetworkModel
    from dpsim.network.libraries import automatic_library
    from dpsim.network.libraries.nccl import beyond, machine_error
    from dpsim.network.maxmin import max_min_rates
    from dpsim.network.model_choice import (
        MODEL_KINDS,
        ModelKind,
        collective_model,
        named_model,
        schedule_on,
    )
    from dpsim.network.outcome import MessageCosts, Outcome
    from dpsim.network.residuals import size_class
    from dpsim.network.rounds import ConfirmedRounds, RoundsModel
    from dpsim.network.servers import Servers, ServersModel
    from dpsim.network.transport import TransportModel, transport_model
else:
    __getattr__, __dir__ = on_demand(__name__, __file__)

__all__ = [
    "MODEL_KINDS",
    "Background",
    "ClosedFormModel",
    "CollectiveModel",
    "Conditions",
    "ConfirmedRounds",
    "FastestModel",
    "FlowsModel",
    "FluidNetwork",
    "HostPathModel",
    "InNetworkModel",
    "LinkChange",
    "MessageCosts",
    "ModelKind",
    "Outcome",
    "RoundsModel",
    "Servers",
    "ServersModel",
    "SharedNetwork",
    "TransportModel",
    "automatic_library",
    "beyond",
    "collective_model",
    "machine_error",
    "max_min_rates",
    "named_model",
    "schedule_on",
    "size_class",
    "transport_model",
]
