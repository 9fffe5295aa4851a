"""Answers as plotly figures: pure functions, one module per figure."""

__all__: list[str] = []
