"""Answers as tables and lines for a terminal, one module per answer."""

__all__: list[str] = []
