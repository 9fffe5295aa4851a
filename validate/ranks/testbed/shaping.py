"""How a link's rate is limited: the token bucket, and what it leaves for a stream's bytes."""

from __future__ import annotations

from dpsim.topology import goodput_fraction

__all__ = ["burst_bytes", "goodput_fraction", "limiter"]

_ETHERNET = 14  # bytes before the IP packet, which the limiter counts too

# Measured at 50, 100, 200 and 400 Mbit/s (16, 32, 64, 128 KiB): larger bursts pass bytes for
# nothing, smaller ones lose tokens.
_BURST_S = 16 * 1024 / (50e6 / 8)

# Of the limiter's queue: long enough that TCP's window is full before a packet is dropped.
_LATENCY = "2000ms"


def burst_bytes(rate: float, mtu: int = 9000) -> int:
    """Bytes that pass a limiter at once after a pause; ``rate`` in B/s.

    At least one frame, which must fit into the bucket. So many bytes of a message after a pause
    cost no time: T = latency + max(0, S - burst) / (goodput fraction x rate).
    """
    return max(round(rate * _BURST_S), mtu + _ETHERNET)


def limiter(device: str, rate: float, mtu: int) -> str:
    """The line of ``tc -batch`` that limits what leaves ``device``."""
    bucket = f"rate {round(rate * 8)}bit burst {burst_bytes(rate, mtu)} latency {_LATENCY}"
    return f"qdisc add dev {device} root tbf {bucket}"
