"""Studies: questions that take many runs, or none of a whole step, a module or package each.

They use the engine, and do not know how answers are displayed.
"""

__all__: list[str] = []
