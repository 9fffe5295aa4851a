"""How answers look: text for a terminal, figures, pages, traces. It renders and computes nothing."""

__all__: list[str] = []
