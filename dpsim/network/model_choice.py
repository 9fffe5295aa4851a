"""Chooses the cheapest model that can do what is asked of it."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Literal, get_args

from dpsim.base.errors import DpsimError
from dpsim.collectives import (
    IN_NETWORK,
    NOT_SCHEDULES,
    Algorithm,
    Schedule,
    algorithm,
    algorithm_names,
    always_exact,
)
from dpsim.network.conditions import NO_CONDITIONS, Conditions
from dpsim.network.model import Ability, CollectiveModel, check_laid_out, check_round
from dpsim.network.outcome import MessageCosts
from dpsim.network.rounds import ConfirmedRounds, RoundsModel, round_bytes
from dpsim.topology import Network, UniformSwitch

if TYPE_CHECKING:
    from dpsim.collectives import Groups

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
    conditions: Conditions | None = None,
) -> CollectiveModel:
    """The model of ``algorithm`` on ``network``.

    ``auto`` is the first of closed form, rounds that flows confirm, and flows that has all
    ``needs``.

    Raises DpsimError when a kind is asked for that the network has no place for, or an algorithm
    that its nodes have none for.
    """
    # Other traffic and faults change rates in mid-round, which only flows follow.
    if conditions:
        needs |= Ability.CONDITIONS
        if kind not in ("auto", "flows"):
            raise DpsimError(
                "network model must be flows or auto with other traffic or links that change, "
                f"but got {kind!r}"
            )
    chosen = _cheapest(algorithm, network, needs) if kind == "auto" else kind
    if chosen == "closed-form":
        from dpsim.network.closed_form import ClosedFormModel

        if not isinstance(network, UniformSwitch):
            raise DpsimError(
                "network model must be rounds, flows or auto on a cluster: closed-form is for one "
                "uniform switch"
            )
        return ClosedFormModel(algorithm, network, costs, itemsize=itemsize)
    schedule = schedule_on(network, algorithm)
    if chosen == "rounds":
        return RoundsModel(schedule, network, costs, itemsize=itemsize)
    if chosen == "confirmed":
        return ConfirmedRounds(schedule, network, costs, itemsize=itemsize)
    from dpsim.network.flows_model import FlowsModel

    check_laid_out(schedule, network)
    met = conditions or NO_CONDITIONS
    return FlowsModel(schedule, network, costs, itemsize=itemsize, conditions=met)


def named_model(
    kind: ModelKind,
    name: str,
    network: Network,
    costs: MessageCosts | None = None,
    *,
    operation: str = "all-reduce",
    needs: Ability = Ability.OWN_STARTS,
    itemsize: int = 4,
    library: str = "ideal",
    groups: Groups | None = None,
    conditions: Conditions | None = None,
) -> CollectiveModel:
    """The model of the algorithm called ``name``, in all ``groups`` at once where given.

    For an all-reduce there are also ``auto`` (the fastest at each size) and ``in-network``.
    With a ``library`` other than "ideal" it is that library's, held to ``name`` unless that is
    ``auto``. Raises UnknownNameError for a name that is not known, and what `collective_model` and
    `library_model` raise.
    """
    if library != "ideal":
        if kind != "auto" or conditions:
            raise DpsimError(
                f"network model must be auto with library {library}, which times messages itself, "
                f"but got {kind!r}{' with conditions' if conditions else ''}"
            )
        from dpsim.network.libraries import library_model

        return library_model(
            library, name, network, operation=operation, itemsize=itemsize, groups=groups
        )
    if operation != "all-reduce" or name not in NOT_SCHEDULES:
        chosen = _algorithm(name, operation, groups)
        return collective_model(
            kind, chosen, network, costs, needs=needs, itemsize=itemsize, conditions=conditions
        )
    if conditions:
        needs |= Ability.CONDITIONS
    if name == IN_NETWORK:
        return _in_network(kind, network, costs, needs, itemsize, groups)
    candidates = _candidates(kind, network, costs, needs, itemsize, groups)
    from dpsim.network.fastest import FastestModel

    return FastestModel(
        network.ranks,
        candidates,
        lambda one: _asked(kind, one, network, costs, needs, itemsize, groups, conditions),
    )


def _algorithm(name: str, operation: str, groups: Groups | None) -> Algorithm:
    chosen = algorithm(name, operation)
    if groups is None:
        return chosen
    from dpsim.collectives import in_groups

    return in_groups(chosen, groups)


def schedule_on(network: Network, algorithm: Algorithm) -> Schedule:
    """The schedule of ``algorithm`` for the ranks of ``network``, as they stand on its nodes."""
    # None of nodes of unequal numbers of GPUs: only algorithms that ask for nodes mind.
    per_node: int | None = getattr(network, "per_node", 1)
    schedule = algorithm.schedule(network.ranks, per_node, getattr(network, "grid", None))
    check_round(schedule, network, round_bytes(schedule, network))
    return schedule


def _in_network(
    kind: ModelKind,
    network: Network,
    costs: MessageCosts | None,
    needs: Ability,
    itemsize: int,
    groups: Groups | None,
) -> CollectiveModel:
    from dpsim.network.in_network import InNetworkModel

    if groups is not None:
        raise DpsimError(
            "algorithm must be one of ranks in groups of some of the workers, but got in-network"
        )
    if not getattr(network, "reduces", False):
        raise DpsimError(
            "algorithm in-network must have switches that reduce "
            "(cluster.network.in_network_reduction), but got a network without"
        )
    if kind not in ("auto", "rounds") or needs not in InNetworkModel.abilities:
        beside = " with other traffic or links that change" if Ability.CONDITIONS in needs else ""
        raise DpsimError(
            "network model of in-network must be rounds or auto on an undisturbed network, but "
            f"got {kind!r}{beside}"
        )
    return InNetworkModel(network, costs, itemsize=itemsize)


def _candidates(
    kind: ModelKind,
    network: Network,
    costs: MessageCosts | None,
    needs: Ability,
    itemsize: int,
    groups: Groups | None,
) -> dict[str, CollectiveModel]:
    """A model by rounds of every all-reduce that can be tried in a moment.

    Algorithms that the network has no place for are left out.
    """
    from dpsim.network.fastest import is_quick

    candidates: dict[str, CollectiveModel] = {}
    for name in algorithm_names():
        with suppress(DpsimError):  # not for these nodes
            schedule = schedule_on(network, _algorithm(name, "all-reduce", groups))
            if is_quick(schedule):
                # By rounds whatever is asked for, which is quick: what then times the fastest is up
                # to `_asked`.
                rounds = RoundsModel if kind == "rounds" else ConfirmedRounds
                candidates[name] = rounds(schedule, network, costs, itemsize=itemsize)
    with suppress(DpsimError):  # not for these switches, nodes or needs
        candidates[IN_NETWORK] = _in_network(kind, network, costs, needs, itemsize, groups)
    return candidates


def _asked(
    kind: ModelKind,
    name: str,
    network: Network,
    costs: MessageCosts | None,
    needs: Ability,
    itemsize: int,
    groups: Groups | None,
    conditions: Conditions | None,
) -> CollectiveModel | None:
    """The model of the kind asked for.

    None where that is the one by rounds with which algorithms are compared.
    """
    if kind == "rounds" or (kind == "auto" and needs in RoundsModel.abilities):
        return None
    return named_model(
        kind,
        name,
        network,
        costs,
        needs=needs,
        itemsize=itemsize,
        groups=groups,
        conditions=conditions,
    )


def _cheapest(
    algorithm: Algorithm, network: Network, needs: Ability
) -> Literal["closed-form", "confirmed", "flows"]:
    # Models are chosen before sizes are known: a function that is exact for some is no choice.
    if isinstance(network, UniformSwitch) and algorithm.exact_for is always_exact:
        from dpsim.network.closed_form import ClosedFormModel

        if needs in ClosedFormModel.abilities:
            return "closed-form"
    if needs in ConfirmedRounds.abilities:
        return "confirmed"
    return "flows"
