"""How answers look: text for a terminal, figures, pages, traces.

It renders what others computed, and knows no command.
"""

__all__: list[str] = []
