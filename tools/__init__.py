"""Development tools: reference pages, fits of constants, and measures of the sources.

Not part of the wheel.
"""

__all__: list[str] = []
