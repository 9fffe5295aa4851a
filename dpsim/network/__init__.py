"""How long transfers take: by rounds, by fluid flows, by closed forms."""

from dpsim.network.choice import MODEL_KINDS, ModelKind, collective_model
from dpsim.network.closed_form import ClosedFormModel
from dpsim.network.flows import FlowsModel
from dpsim.network.fluid import FluidNetwork
from dpsim.network.maxmin import max_min_rates
from dpsim.network.model import Ability, CollectiveModel, MessageCosts, Outcome
from dpsim.network.rounds import RoundsModel

__all__ = [
    "MODEL_KINDS",
    "Ability",
    "ClosedFormModel",
    "CollectiveModel",
    "FlowsModel",
    "FluidNetwork",
    "MessageCosts",
    "ModelKind",
    "Outcome",
    "RoundsModel",
    "collective_model",
    "max_min_rates",
]
