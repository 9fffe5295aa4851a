"""Gossip: each worker averages its model with a few neighbours, instead of with all workers.

Replicas agree only at the end. Synchronous (D-PSGD): the models at the start of a step are
exchanged while gradients are computed, and the update is added to their mean; a worker waits only
for its neighbours. Asynchronous (AD-PSGD, with ``sync: asp``): a worker that has its gradient
averages its model with a random neighbour, which keeps computing meanwhile. Both end with a
consensus round, one all-reduce of the models. Sources: Lian et al., NeurIPS 2017 (D-PSGD); Lian et
al., "Asynchronous decentralized parallel stochastic gradient descent", ICML 2018 (AD-PSGD).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar, Literal

import numpy as np
from pydantic import Field

from dpsim.collectives import Schedule
from dpsim.strategy.aggregation.aggregation import Aggregation, Coordination, Turns
from dpsim.strategy.aggregation.collective_call import Calls, CollectiveCall, whole_model
from dpsim.strategy.aggregation.setting import Setting
from dpsim.topology import Mesh
from dpsim.workload import Model, Program


class GossipConfig(Aggregation):
    """Each worker averages its model with a few neighbours."""

    coordination: ClassVar[Coordination] = Coordination.PAIRWISE
    averaged_by: ClassVar[str] = "gossip"
    one_version: ClassVar[bool] = False
    is_random: ClassVar[bool] = True  # of random pairs

    kind: Literal["gossip"] = Field(
        description="Each worker averages its model with a few neighbours."
    )
    graph: Literal["ring", "exponential", "random-pairs", "torus"] = Field(
        default="ring",
        description=(
            "Neighbours of a worker: both in a ring, the four in a torus, one at a distance of 1, "
            "2, 4, ... in turn, or a random partner in each step."
        ),
    )

    def calls(self, model: Model, program: Program, batch: int, mesh: Mesh) -> Calls:
        """Return the exchange of the models at a step's start; the update waits for it."""
        # D-PSGD, algorithm 1: the mean and the gradient both use the model at the start of the
        # step, so neither waits for the other.
        (whole,) = whole_model(model, program, "gossip")
        return (CollectiveCall(whole.name, whole.nbytes, 0, program.end, "gossip", "models"),)

    def collectives(self, setting: Setting) -> Mapping[str, Turns]:
        """Return one exchange for each turn of the graph."""
        from dpsim.network import FlowsModel, RoundsModel

        turns = self.turns(setting.cluster.ranks, setting.seed)
        conditions = setting.conditions(setting.cluster)
        models: Turns
        # Rounds are timed on an undisturbed network; other traffic needs flows.
        if setting.kind == "flows" or conditions:
            models = tuple(
                FlowsModel(turn, setting.cluster, setting.costs, conditions=conditions)
                for turn in turns
            )
        else:
            models = tuple(RoundsModel(turn, setting.cluster, setting.costs) for turn in turns)
        return {"gossip": models}

    def payloads(self, workers: int, *, sums_in_flight: bool) -> int:
        """Return one payload for each neighbour if payloads do not add up."""
        from dpsim.collectives import most_neighbours

        return 1 if sums_in_flight else max(most_neighbours(turn) for turn in self.turns(workers))

    def turns(self, workers: int, seed: int = 0) -> tuple[Schedule, ...]:
        """Return the exchanges of successive steps, which repeat in turn."""
        from dpsim.collectives import gossip_turns

        return gossip_turns(self.graph, workers, seed)

    def sends_per_iteration(self, workers: int, seed: int, turn: int) -> float:
        """Return two messages per worker that has a partner, over the messages of the turn."""
        # A synchronous turn has a message along every edge. An asynchronous worker picks one
        # neighbour, and exchanges models with it.
        phases = self.turns(workers, seed)[turn].phases
        receivers = np.concatenate([phase.destination.at(0) for phase in phases])
        return 2 * len(np.unique(receivers)) / len(receivers)

    def consensus(self, model_bytes: int, setting: Setting) -> float:
        """Return the seconds of a ring all-reduce, after which all hold the mean of all models."""
        if setting.cluster.ranks == 1:
            return 0.0
        return setting.timed("ring").seconds_from_common_start(model_bytes)
