"""The same networks in torch, with its automatic differentiation."""

from __future__ import annotations

from typing import Any

from dpsim.base.arrays import IntArray, RealArray
from dpsim.studies.replay.learning.network import Network
from dpsim.workload import import_torch


class TorchNetwork(Network):
    """A network computed by torch.

    Raises DpsimError, with a hint on installing it, if it is missing.
    """

    def __init__(self, network: Network) -> None:
        super().__init__(network.layers)
        self._torch: Any = import_torch()

    def gradients(
        self, parameters: RealArray, images: RealArray, labels: IntArray
    ) -> tuple[RealArray, RealArray]:
        torch = self._torch
        # A row of weights for each worker, even if all share one: the gradients stay separate.
        weights = torch.tensor(parameters).expand(len(images), -1).contiguous().requires_grad_()
        scores = self.scores(weights, torch.tensor(images))
        # Shaped (n, classes, batch): torch expects the classes second.
        losses = torch.nn.functional.cross_entropy(
            scores.transpose(1, 2), torch.tensor(labels), reduction="none"
        ).mean(dim=1)
        # Each row of weights is only in its own worker's loss, so the sum mixes no gradients.
        losses.sum().backward()
        return losses.detach().numpy(), weights.grad.numpy()
