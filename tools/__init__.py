"""What makes parts of the project: reference pages, refits of constants, counts.

Not in the wheel.
"""

__all__: list[str] = []
