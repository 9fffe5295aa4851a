"""Questions that take many runs, or none of a whole step: one module or package a study.

They know the engine, not how answers look.
"""

__all__: list[str] = []
