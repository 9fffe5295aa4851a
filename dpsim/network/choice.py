"""Chooses the cheapest model that can do what is asked of it."""

from __future__ import annotations

from typing import Literal, get_args

from dpsim.collectives import Algorithm
from dpsim.errors import DpsimError
from dpsim.network.closed_form import ClosedFormModel
from dpsim.network.flows import FlowsModel
from dpsim.network.model import Ability, CollectiveModel, MessageCosts
from dpsim.network.rounds import RoundsModel
from dpsim.topology.network import Network, UniformSwitch

ModelKind = Literal["auto", "rounds", "flows", "closed-form"]
MODEL_KINDS: tuple[str, ...] = get_args(ModelKind)


def collective_model(
    kind: ModelKind,
    algorithm: Algorithm,
    network: Network,
    costs: MessageCosts | None = None,
    *,
    needs: Ability = Ability.OWN_STARTS,
    itemsize: int = 4,
) -> CollectiveModel:
    """The model of ``algorithm`` on ``network``; ``auto`` is the first of closed form, rounds and flows that has all ``needs``.

    Raises DpsimError when a kind is asked for that the network has no place for.
    """
    if kind == "auto":
        kind = _cheapest(network, needs)
    if kind == "closed-form":
        if not isinstance(network, UniformSwitch):
            raise DpsimError("network model must be rounds, flows or auto on a cluster: closed-form is for one uniform switch")
        return ClosedFormModel(algorithm, network, costs, itemsize=itemsize)
    model = RoundsModel if kind == "rounds" else FlowsModel
    return model(algorithm.schedule(network.ranks), network, costs, itemsize=itemsize)


def _cheapest(network: Network, needs: Ability) -> Literal["closed-form", "rounds", "flows"]:
    if isinstance(network, UniformSwitch) and needs in ClosedFormModel.abilities:
        return "closed-form"
    return "rounds" if needs in RoundsModel.abilities else "flows"
