"""Answers in the formats of other tools; one module a format."""

__all__: list[str] = []
