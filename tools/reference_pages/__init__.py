"""The reference pages of the documentation, made from what the program itself knows.

Registries, models and commands.
"""

from tools.reference_pages.pages import reference_pages

__all__ = ["reference_pages"]
