"""The reference pages of the documentation, generated from registries, models and commands."""

from tools.reference_pages.pages import reference_pages

__all__ = ["reference_pages"]
