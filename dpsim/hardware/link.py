"""A link's nominal rate, the achievable part of it, and its message latency."""

from __future__ import annotations

from functools import cache
from typing import Annotated

from pydantic import Field

from dpsim.base.config import Config
from dpsim.base.units import RATE, human
from dpsim.hardware.catalogue import Catalogue, by_name
from dpsim.hardware.sourced import SourcedFraction, SourcedRate, SourcedTime

_NOMINAL = SourcedFraction(
    value=1.0, source="assumed: the rate that is given is the one that messages reach"
)


class Link(Config):
    """One full-duplex link between two devices, or between a network card and its switch."""

    name: str = Field(default="inline", description="Name in the catalogue.")
    aliases: tuple[str, ...] = Field(default=(), description="Other names.")
    description: str = Field(default="", description="Description, and pitfalls.")
    rate: SourcedRate = Field(
        description="Nominal rate in one direction, in B/s, whatever the payload."
    )
    achievable: SourcedFraction = Field(
        default=_NOMINAL, description="Fraction of the nominal rate that large messages reach."
    )
    latency: SourcedTime = Field(
        description=(
            "One-way latency of a message on this link in seconds, with its share of card, switch "
            "and driver (a path between cards through one switch crosses two links). NCCL's model "
            "does not use it: its constants include the latency of its usual links."
        )
    )

    @property
    def bandwidth(self) -> float:
        """B/s of large messages in one direction: the achievable part of the nominal rate."""
        return self.rate.value * self.achievable.value

    def __repr__(self) -> str:
        return (
            f"<Link {self.name}: {human(self.bandwidth, RATE)} of {human(self.rate.value, RATE)}>"
        )

    __str__ = __repr__


@cache
def links() -> Catalogue[Link]:
    """Return the links of the catalogue, by name or alias."""
    return Catalogue("link", "links", Link)


def pcie_link_name(generation: int, lanes: int = 16) -> str:
    """Return the name of a PCIe link, which need not be in the catalogue."""
    return f"pcie{generation}-x{lanes}"


@cache
def pcie_rate(generation: int, lanes: int = 16) -> float:
    """Return the nominal one-way B/s of a PCIe link, from the catalogue's link of 16 lanes."""
    # Each lane of a generation has the same rate.
    return links()[pcie_link_name(generation)].rate.value * lanes / 16


# A field that accepts a catalogue name or a link's description, and holds the Link.
LinkRef = Annotated[Link, by_name(links, Link)]
