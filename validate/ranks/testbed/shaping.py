"""The rate limit of a link: the token bucket, and the rate that it leaves for a stream's bytes."""

from __future__ import annotations

from dpsim.topology import goodput_fraction

__all__ = ["burst_bytes", "goodput_fraction", "limiter"]

_ETHERNET = 14  # bytes before the IP packet, which the limiter also counts

# Measured at 50, 100, 200 and 400 Mbit/s (16, 32, 64, 128 KiB): larger bursts pass bytes at no
# cost, smaller ones lose tokens.
_BURST_S = 16 * 1024 / (50e6 / 8)

# Of the limiter's queue: long enough for TCP's window to fill before a packet is dropped.
_LATENCY = "2000ms"


def burst_bytes(rate: float, mtu: int = 9000) -> int:
    """Return the bytes that pass a limiter at once after a pause; ``rate`` in B/s.

    At least one frame, which must fit into the bucket. That many bytes of a message after a pause
    cost no time: T = latency + max(0, S - burst) / (goodput fraction x rate).
    """
    return max(round(rate * _BURST_S), mtu + _ETHERNET)


def limiter(device: str, rate: float, mtu: int) -> str:
    """Return the line of ``tc -batch`` that limits the traffic leaving ``device``."""
    bucket = f"rate {round(rate * 8)}bit burst {burst_bytes(rate, mtu)} latency {_LATENCY}"
    return f"qdisc add dev {device} root tbf {bucket}"
