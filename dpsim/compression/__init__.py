"""What is done to payloads before they travel."""

from dpsim.compression.none import NoCompressionConfig

__all__ = ["NoCompressionConfig"]
