"""Collectives as processes carry them out over TCP.

Processors, announcements, buffers and rate limiters.
"""

from dpsim.network.transport.transport import TransportModel, transport_model

__all__ = [
    "TransportModel",
    "transport_model",
]
