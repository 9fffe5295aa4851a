"""Exports in the formats of other tools, one module per format."""

__all__: list[str] = []
