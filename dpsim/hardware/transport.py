"""The measured parameters of the transport of messages between nodes."""

from __future__ import annotations

from pydantic import Field, NonNegativeInt

from dpsim.base.config import Config
from dpsim.base.units import DATA, TIME


class Transport(Config):
    """The transport of messages between nodes.

    Fields that are left out keep the values of the catalogue and the formulas.
    """

    latency: float | None = Field(
        default=None,
        ge=0,
        le=TIME.most,
        description="Latency of an empty message in s; a rendezvous takes it twice.",
    )
    overhead: float = Field(
        default=0.0,
        ge=0,
        le=TIME.most,
        description="CPU time per sent and per received message in s.",
    )
    efficiency: float | None = Field(
        default=None,
        ge=1e-6,
        le=1,
        description="Share of a link's nominal rate that a long message reaches.",
    )
    duplex: float | None = Field(
        default=None,
        ge=0.5,
        le=1,
        description="Share of that rate per direction while both send; 0.5: they take turns.",
    )
    dispatch: float = Field(
        default=0.0,
        ge=0,
        le=TIME.most,
        description="CPU time per message that a program posts and per reduction in s.",
    )
    per_byte: float = Field(
        default=0.0, ge=0, le=TIME.most, description="CPU time per received byte in s."
    )
    gamma: float | None = Field(
        default=None,
        ge=0,
        le=TIME.most,
        description="CPU time per reduced byte in s.",
    )
    entry: float = Field(
        default=0.0,
        ge=0,
        le=TIME.most,
        description="CPU time of a rank to enter a collective in s.",
    )
    header: float = Field(default=0.0, ge=0, le=DATA.most, description="Header bytes per message.")
    burst: float = Field(
        default=0.0,
        ge=0,
        le=TIME.most,
        description="Depth of a rate limiter's token bucket in s.",
    )
    window: float = Field(
        default=0.0,
        ge=0,
        le=DATA.most,
        description="Bytes in flight per flow; later bytes queue behind them.",
    )
    queue: float = Field(
        default=0.0,
        ge=0,
        le=DATA.most,
        description="Bytes of a flow that queue at its sender's link, except for the first window.",
    )
    buffer: float = Field(
        default=0.0,
        ge=0,
        le=DATA.most,
        description="Send buffer in bytes; a send completes once the kernel has taken the message.",
    )
    stall: float = Field(
        default=0.0,
        ge=0,
        le=TIME.most,
        description="Share of time lost per saturated link.",
    )
    contention: float = Field(
        default=0.0,
        ge=0,
        le=TIME.most,
        description="Share of time lost per B/s of total traffic on saturated links.",
    )
    cores: NonNegativeInt = Field(
        default=0, description="Processors shared by all ranks; 0: each rank has its own."
    )
    copy_latency: float | None = Field(
        default=None,
        ge=0,
        le=TIME.most,
        description="Latency of an empty copy between a GPU and its host in s.",
    )
    copy_rate: float | None = Field(
        default=None,
        ge=1e-3,
        le=1e18,
        description="Rate of a long pinned copy between a GPU and its host in B/s.",
    )

    @property
    def detailed(self) -> bool:
        """Whether it describes processors and limiters, not only message times."""
        return bool(self.cores or self.burst or self.entry)

    @property
    def message_seconds(self) -> float | None:
        """Seconds of an empty message between idle processors: two latencies, three overheads."""
        return None if self.latency is None else 2 * self.latency + 3 * self.overhead
