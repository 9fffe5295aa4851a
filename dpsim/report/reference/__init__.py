"""The reference pages of the documentation, made from what the program itself knows: registries, models and commands."""

from dpsim.report.reference.pages import reference_pages

__all__ = ["reference_pages"]
