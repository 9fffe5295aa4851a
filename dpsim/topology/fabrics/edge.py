"""A link of a network that is given by its edges."""

from __future__ import annotations

from pydantic import Field, model_validator

from dpsim.base.config import Config
from dpsim.base.units import BytesPerSecond, PositiveBytes, Seconds
from dpsim.hardware import LinkRef


class CustomEdge(Config):
    """A full-duplex link between network cards and switches."""

    between: tuple[str, str] = Field(
        description=(
            "Its two ends: network cards as node0/nic0, or a pattern of them as node*/nic0; any "
            "other name is a switch."
        )
    )
    link: LinkRef | None = Field(
        default=None, description="A link of the catalogue, or its description."
    )
    rate: BytesPerSecond | None = Field(
        default=None, description="Rate in each direction, if no link is named."
    )
    latency: Seconds | None = Field(
        default=None, description="Latency; the link's own if left out."
    )
    window: PositiveBytes | None = Field(
        default=None,
        description=(
            "Unacknowledged bytes in flight, over TCP's windows of all connections: the rate is "
            "at most window / (2 latency). Unlimited if left out."
        ),
    )

    @model_validator(mode="after")
    def _check_rate(self) -> CustomEdge:
        if (self.link is None) == (self.rate is None):
            raise ValueError(
                "must have either link or rate, but got "
                f"{'neither' if self.link is None else 'both'}"
            )
        if self.link is None and self.latency is None:
            raise ValueError("must have a latency beside its rate, such as 'latency: 1 us'")
        return self

    @property
    def bandwidth(self) -> float:
        """B/s in each direction."""
        rate = self.link.bandwidth if self.link is not None else (self.rate or 0.0)
        if self.window is None or self.seconds == 0:
            return rate
        # One window per round trip.
        return min(rate, self.window / (2 * self.seconds))

    @property
    def seconds(self) -> float:
        """The latency in s."""
        if self.latency is not None:
            return self.latency
        return self.link.latency.value if self.link is not None else 0.0
