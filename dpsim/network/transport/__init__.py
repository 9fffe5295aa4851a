"""Collectives as processes run them over TCP, on shared processors and rate-limited links."""

from dpsim.network.transport.transport import TransportModel, transport_model

__all__ = [
    "TransportModel",
    "transport_model",
]
