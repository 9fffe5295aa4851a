"""Ports joined to their neighbours in a grid with wrap-around links, without switches."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Annotated, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, NonNegativeInt, PositiveInt

from dpsim.base.arrays import IntArray, near_square
from dpsim.topology.fabrics.ecmp import HASHED, Spread
from dpsim.topology.fabrics.fabric import Fabric, FabricConfig, Ports


class Torus(Fabric):
    """Ports in a grid of ``dims``, each joined to its two neighbours in every dimension.

    Ports are numbered with the last dimension fastest. Each port is a router, and each of its links
    has its full rate. Routes go dimension by dimension, the last one first, in the shorter
    direction; if both are equally long, ``spread`` chooses. Capacities: for each dimension and
    direction, the link out of each port. A dimension of 2 has one link, a dimension of 1 none.
    """

    def __init__(self, ports: Ports, dims: Sequence[int], *, spread: Spread = HASHED) -> None:
        assert prod(dims) == ports.count
        self.dims: tuple[int, ...] = tuple(dims)
        self.spread = spread
        self._strides = [prod(self.dims[axis + 1 :]) for axis in range(len(self.dims))]
        # Axis and direction of each block of capacities.
        self._blocks: list[tuple[int, int]] = []
        for axis, size in enumerate(self.dims):
            if size > 1:
                self._blocks.append((axis, 1))
            if size > 2:  # with two ports both neighbours are the same, joined by one link
                self._blocks.append((axis, -1))
        self._block = {block: number for number, block in enumerate(self._blocks)}

        # A link has the lower rate and the longer latency of its two ports.
        all_ports = np.arange(ports.count)
        rates, latencies = [np.empty(0)], [np.empty(0)]
        for axis, direction in self._blocks:
            end = self._step(all_ports, axis, direction)
            rates.append(np.minimum(ports.rates, ports.rates[end]))
            latencies.append(np.maximum(ports.latencies, ports.latencies[end]))
        super().__init__(ports, np.concatenate(rates), np.concatenate(latencies))

    def _step(self, port: IntArray, axis: int, direction: int | IntArray) -> IntArray:
        """Return each port's neighbour along ``axis``: next (1), previous (-1) or itself (0)."""
        stride, size = self._strides[axis], self.dims[axis]
        place = port // stride % size
        return port + ((place + direction) % size - place) * stride

    def paths(self, source: IntArray, destination: IntArray) -> IntArray:
        """Return the links along the last dimension, then the one before, and so on."""
        columns: list[IntArray] = []
        place = source
        # Dimension by dimension, like torus routers.
        for axis in reversed(range(len(self.dims))):
            stride, size = self._strides[axis], self.dims[axis]
            ahead = (destination // stride - source // stride) % size
            back = self._goes_back(source, destination, ahead, axis)
            steps = np.where(back, size - ahead, ahead)
            direction = np.where(back, -1, 1)
            # Dimensions of 1 or 2 lack the block of an unused direction; this 0 is never used.
            forwards = self._block.get((axis, 1), 0)
            backwards = self._block.get((axis, -1), 0)
            block = np.where(back, backwards, forwards) * self.ports.count
            # As many columns as the farthest pair needs; pairs that have arrived get padding.
            for step in range(int(steps.max(initial=0))):
                moves = step < steps
                columns.append(np.where(moves, block + place, -1))
                place = self._step(place, axis, np.where(moves, direction, 0))
        if not columns:
            return np.empty((len(source), 0), dtype=np.int64)
        return np.stack(columns, axis=1)

    def _goes_back(
        self, source: IntArray, destination: IntArray, ahead: IntArray, axis: int
    ) -> NDArray[np.bool_]:
        """Return which pairs, ``ahead`` steps apart along ``axis``, are nearer backwards."""
        size = self.dims[axis]
        shorter = 2 * ahead > size
        if self.spread.seed is None or size == 2:
            return shorter
        equal = 2 * ahead == size
        chosen = self.spread.choose(source, destination, 2, level=axis) == 1
        return np.asarray(shorter | (equal & chosen))

    def link(self, number: int) -> tuple[str, str]:
        """Return a port and its neighbour."""
        block, port = divmod(number, self.ports.count)
        end = self._step(np.array([port]), *self._blocks[block])
        return f"port{port}", f"port{end[0]}"


class _DirectConfig(FabricConfig):
    ecmp_seed: NonNegativeInt = Field(
        default=0, description="Seed of the hash that chooses between two paths of equal length."
    )


class TorusConfig(_DirectConfig):
    """Network cards joined to their neighbours in a grid that wraps around."""

    fabric: Literal["torus"] = Field(
        description="Network cards joined to neighbours in a wrap-around grid, at full rate."
    )
    dims: Annotated[tuple[PositiveInt, ...], Field(min_length=1, max_length=6)] | None = Field(
        default=None,
        description=(
            "Network cards in each dimension, such as [4, 4] or [4, 4, 4], the last dimension "
            "filled first; two nearly equal dimensions if left out."
        ),
    )

    def check(self, cards: Sequence[int]) -> None:
        """Raise ValueError if the product of the dimensions is not the number of cards."""
        if self.dims is not None and prod(self.dims) != sum(cards):
            raise ValueError(
                f"dims must multiply to the {sum(cards)} network cards of all nodes, but "
                f"{list(self.dims)} make {prod(self.dims)}"
            )

    def fabric_of(self, ports: Ports) -> Fabric:
        """Return the torus of ``dims``, or of the two dimensions nearest to a square."""
        return Torus(ports, self.dims or near_square(ports.count), spread=Spread(self.ecmp_seed))


class RingConfig(_DirectConfig):
    """Network cards joined in a ring."""

    fabric: Literal["ring"] = Field(
        description="Network cards joined to their two neighbours in a ring."
    )

    def fabric_of(self, ports: Ports) -> Fabric:
        """Return a torus of one dimension."""
        return Torus(ports, (ports.count,), spread=Spread(self.ecmp_seed))
