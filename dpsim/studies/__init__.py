"""Questions that take many simulations, or none of a whole step: one module or package a study.

Studies know the engine, not how answers look.
"""

__all__: list[str] = []
