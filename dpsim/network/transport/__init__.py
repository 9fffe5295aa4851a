"""Collectives as processes carry them out over TCP, on shared processors and limited links."""

from dpsim.network.transport.transport import TransportModel, transport_model

__all__ = [
    "TransportModel",
    "transport_model",
]
