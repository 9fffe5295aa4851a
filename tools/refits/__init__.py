"""Fits of the shipped constants; each writes the same bytes for the same tables."""

__all__: list[str] = []
