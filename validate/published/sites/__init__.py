"""Transfers over long links, as published, and how well a window tells them."""

from validate.published.sites.windows import left_out_conditions, left_out_links

__all__ = ["left_out_conditions", "left_out_links"]
