"""Answers as plotly figures: pure functions, one module a picture."""

__all__: list[str] = []
