"""Fits constants that the package ships anew; each writes the same bytes for the same tables."""

__all__: list[str] = []
