"""Tables of published measurements, and errors over their rows."""

__all__: list[str] = []
