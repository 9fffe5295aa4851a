"""Transfers over long links and local SGD between sites: published and predicted values."""

from validate.published.sites.local_sgd import ComputeShare, compute_shares, seconds_on_graphs
from validate.published.sites.windows import left_out_conditions, left_out_links

__all__ = [
    "ComputeShare",
    "compute_shares",
    "left_out_conditions",
    "left_out_links",
    "seconds_on_graphs",
]
