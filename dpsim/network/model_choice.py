"""Choose the model of an algorithm on a network."""

from __future__ import annotations

from contextlib import suppress
from functools import partial
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
from dpsim.network.collective_models import CollectiveModel, check_laid_out, check_round
from dpsim.network.conditions import NO_CONDITIONS, Conditions
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
    common_start: bool = False,
    itemsize: int = 4,
    conditions: Conditions | None = None,
) -> CollectiveModel:
    """Return the model of ``algorithm`` on ``network``.

    ``auto`` is the cheapest exact model: flows under ``conditions``, the closed form on a uniform
    switch if all ranks start together (``common_start``), otherwise rounds confirmed by flows.
    Raises DpsimError for a kind or an algorithm that the network does not support.
    """
    _check_conditions(kind, conditions)
    # Models are chosen before sizes are known, so the cost function must be exact for all sizes.
    has_exact_cost = common_start and algorithm.exact_for is always_exact
    is_switch = isinstance(network, UniformSwitch)
    if kind == "closed-form" or (
        kind == "auto" and has_exact_cost and is_switch and not conditions
    ):
        from dpsim.network.closed_form import ClosedFormModel

        if not isinstance(network, UniformSwitch):
            raise DpsimError(
                "network model must be rounds, flows or auto on a cluster: closed-form is for one "
                "uniform switch"
            )
        return ClosedFormModel(algorithm, network, costs, itemsize=itemsize)
    schedule = schedule_on(network, algorithm)
    if kind == "rounds":
        return RoundsModel(schedule, network, costs, itemsize=itemsize)
    if kind == "auto" and not conditions:
        return ConfirmedRounds(schedule, network, costs, itemsize=itemsize)
    from dpsim.network.flows_model import FlowsModel

    check_laid_out(schedule, network)
    conditions = conditions or NO_CONDITIONS
    return FlowsModel(schedule, network, costs, itemsize=itemsize, conditions=conditions)


def named_model(
    kind: ModelKind,
    name: str,
    network: Network,
    costs: MessageCosts | None = None,
    *,
    operation: str = "all-reduce",
    common_start: bool = False,
    itemsize: int = 4,
    library: str = "ideal",
    groups: Groups | None = None,
    conditions: Conditions | None = None,
) -> CollectiveModel:
    """Return the model of the algorithm ``name``, in all ``groups`` at once if given.

    For an all-reduce there are also ``auto`` (the fastest at each size) and ``in-network``. A
    ``library`` other than "ideal" is restricted to ``name`` unless that is ``auto``. Raises
    UnknownNameError for an unknown name, and the errors of `collective_model` and `library_model`.
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
    of_algorithm = partial(
        collective_model,
        kind,
        network=network,
        costs=costs,
        common_start=common_start,
        itemsize=itemsize,
        conditions=conditions,
    )
    if operation != "all-reduce" or name not in NOT_SCHEDULES:
        return of_algorithm(_algorithm(name, operation, groups))
    in_network = partial(_in_network, kind, network, costs, itemsize, groups, conditions)
    if name == IN_NETWORK:
        return in_network()

    _check_conditions(kind, conditions)
    from dpsim.network.fastest import FastestModel, is_quick

    # Algorithms are compared by rounds, which is quick; the fastest is then timed as asked.
    rounds = RoundsModel if kind == "rounds" else ConfirmedRounds
    candidates: dict[str, CollectiveModel] = {}
    for each in algorithm_names():
        with suppress(DpsimError):  # not for these nodes
            schedule = schedule_on(network, _algorithm(each, operation, groups))
            if is_quick(schedule):
                candidates[each] = rounds(schedule, network, costs, itemsize=itemsize)
    with suppress(DpsimError):  # not for these switches, nodes or conditions
        candidates[IN_NETWORK] = in_network()
    if kind == "rounds" or (kind == "auto" and not conditions):
        return FastestModel(candidates)
    return FastestModel(candidates, lambda each: of_algorithm(_algorithm(each, operation, groups)))


def _check_conditions(kind: ModelKind, conditions: Conditions | None) -> None:
    # Only flows model rates that change during a round.
    if conditions and kind not in ("auto", "flows"):
        raise DpsimError(
            "network model must be flows or auto with other traffic or links that change, "
            f"but got {kind!r}"
        )


def _algorithm(name: str, operation: str, groups: Groups | None) -> Algorithm:
    chosen = algorithm(name, operation)
    if groups is None:
        return chosen
    from dpsim.collectives import in_groups

    return in_groups(chosen, groups)


def schedule_on(network: Network, algorithm: Algorithm) -> Schedule:
    """Return the schedule of ``algorithm`` for the ranks of ``network`` on its nodes."""
    # None if nodes have different numbers of GPUs, which matters only to node-aware algorithms.
    per_node: int | None = getattr(network, "per_node", 1)
    schedule = algorithm.schedule(network.ranks, per_node, getattr(network, "grid", None))
    check_round(schedule, network, round_bytes(schedule, network))
    return schedule


def _in_network(
    kind: ModelKind,
    network: Network,
    costs: MessageCosts | None,
    itemsize: int,
    groups: Groups | None,
    conditions: Conditions | None,
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
    if kind not in ("auto", "rounds") or conditions:
        beside = " with other traffic or links that change" if conditions else ""
        raise DpsimError(
            "network model of in-network must be rounds or auto on an undisturbed network, but "
            f"got {kind!r}{beside}"
        )
    return InNetworkModel(network, costs, itemsize=itemsize)
