"""Answers as tables and lines for a terminal; one module an answer."""

__all__: list[str] = []
