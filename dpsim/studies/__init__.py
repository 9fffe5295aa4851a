"""Studies that take many runs, or none of a whole step: one module or package each.

They know the engine, not how answers look.
"""

__all__: list[str] = []
