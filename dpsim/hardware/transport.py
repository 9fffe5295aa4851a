"""The transport of messages between nodes: the parameters that a calibration measures."""

from __future__ import annotations

from pydantic import Field, NonNegativeInt

from dpsim.base.config import Config
from dpsim.base.units import DATA, TIME


class Transport(Config):
    """The transport of messages between ranks of different nodes.

    Fields that are left out keep the values of the catalogue and the formulas.
    """

    latency: float | None = Field(
        default=None,
        ge=0,
        le=TIME.most,
        description=(
            "s on the way of a message without bytes; a receive that is announced takes it twice."
        ),
    )
    overhead: float = Field(
        default=0.0,
        ge=0,
        le=TIME.most,
        description="s of a processor for each message that is sent, and for each that comes.",
    )
    efficiency: float | None = Field(
        default=None,
        ge=1e-6,
        le=1,
        description="What a long message gets of a link's nominal rate.",
    )
    duplex: float | None = Field(
        default=None,
        ge=0.5,
        le=1,
        description=(
            "What each direction of a link keeps of that while both carry; 0.5: they take turns."
        ),
    )
    dispatch: float = Field(
        default=0.0,
        ge=0,
        le=TIME.most,
        description=(
            "s of a processor for each message that a program posts, and each time it adds up."
        ),
    )
    per_byte: float = Field(
        default=0.0, ge=0, le=TIME.most, description="s of a processor for each byte that comes."
    )
    gamma: float | None = Field(
        default=None,
        ge=0,
        le=TIME.most,
        description="s of a processor for each byte that is added up.",
    )
    entry: float = Field(
        default=0.0,
        ge=0,
        le=TIME.most,
        description="s of a processor that a rank takes to enter a collective.",
    )
    header: float = Field(
        default=0.0, ge=0, le=DATA.most, description="Bytes that travel with each message."
    )
    burst: float = Field(
        default=0.0,
        ge=0,
        le=TIME.most,
        description="s that a link's limiter saves up while it is idle, to be free later.",
    )
    window: float = Field(
        default=0.0,
        ge=0,
        le=DATA.most,
        description="Bytes that a flow keeps on the way: what comes later waits behind them.",
    )
    queue: float = Field(
        default=0.0,
        ge=0,
        le=DATA.most,
        description="Bytes of a flow that wait at its sender's own link, but for its first window.",
    )
    buffer: float = Field(
        default=0.0,
        ge=0,
        le=DATA.most,
        description="Bytes that the kernel takes from a sender, who then is done with them.",
    )
    stall: float = Field(
        default=0.0,
        ge=0,
        le=TIME.most,
        description="Part of the time that is lost for each link that is full.",
    )
    contention: float = Field(
        default=0.0,
        ge=0,
        le=TIME.most,
        description="The same, for each B/s that full links carry together.",
    )
    cores: NonNegativeInt = Field(
        default=0, description="Processors that all ranks share; 0: each has its own."
    )
    copy_latency: float | None = Field(
        default=None,
        ge=0,
        le=TIME.most,
        description="s of a copy without bytes between a GPU and its host.",
    )
    copy_rate: float | None = Field(
        default=None,
        ge=1e-3,
        le=1e18,
        description="B/s of a long copy between a GPU and its host, pinned.",
    )

    @property
    def detailed(self) -> bool:
        """Whether it describes processors and limiters, not only message times."""
        return bool(self.cores or self.burst or self.entry)

    @property
    def message_seconds(self) -> float | None:
        """The time of a message without bytes between idle processors, in s.

        Announcement, transit, and three overheads.
        """
        return None if self.latency is None else 2 * self.latency + 3 * self.overhead
