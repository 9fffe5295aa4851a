"""Answers as one HTML page that needs nothing else."""

__all__: list[str] = []
