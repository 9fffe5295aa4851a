"""The same networks with torch, whose own differentiation finds the gradients."""

from __future__ import annotations

from typing import Any

from dpsim.base.arrays import IntArray, RealArray
from dpsim.studies.replay.learning.network import Network
from dpsim.workload import import_torch


class TorchNetwork(Network):
    """A network that torch computes.

    Raises DpsimError, with how to install it, where it is missing.
    """

    def __init__(self, network: Network) -> None:
        super().__init__(network.layers)
        self._torch: Any = import_torch()

    def gradients(
        self, parameters: RealArray, images: RealArray, labels: IntArray
    ) -> tuple[RealArray, RealArray]:
        """As of the network that it was made from."""
        torch = self._torch
        # A row of weights for each worker, also where all share one: gradients come out apart.
        weights = torch.tensor(parameters).expand(len(images), -1).contiguous().requires_grad_()
        scores = self.scores(weights, torch.tensor(images))
        # (n, classes, batch): torch wants the classes second.
        losses = torch.nn.functional.cross_entropy(
            scores.transpose(1, 2), torch.tensor(labels), reduction="none"
        ).mean(dim=1)
        # Each row of weights is in its own worker's loss alone, so the sum mixes no gradients.
        losses.sum().backward()
        return losses.detach().numpy(), weights.grad.numpy()
