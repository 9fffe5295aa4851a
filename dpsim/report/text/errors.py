"""Errors of predictions by group, as a table for a terminal."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from rich.table import Table

from dpsim.base.terminal import table

# For each error figure of a group: the heading of its column and the format of its numbers.
_COLUMNS: dict[str, tuple[str, Callable[[float], str]]] = {
    "n": ("n", str),
    "median_ape": ("median", "{:.1%}".format),
    "mean_ape": ("mean", "{:.1%}".format),
    "p95_ape": ("95th percentile", "{:.1%}".format),
    "worst_ape": ("worst", "{:.1%}".format),
    "machines": ("machines", str),
    "mean_over_machines": ("mean over machines", "{:.1%}".format),
    "coverage": ("in the interval", "{:.0%}".format),
    "median_width": ("high over low", "{:.2f}".format),
}


def errors_table(title: str, what: str, groups: Mapping[str, Mapping[str, Any]]) -> Table:
    """Return the errors of each group; ``what`` is the heading of the groups' names.

    A figure that no group has is left out.
    """
    keys = [key for key in _COLUMNS if any(each.get(key) is not None for each in groups.values())]
    rows = []
    for name, group in groups.items():
        formatted = ((_COLUMNS[key][1], group.get(key)) for key in keys)
        rows.append(
            (name[:64], *("" if figure is None else write(figure) for write, figure in formatted))
        )
    return table(title, (what, *(_COLUMNS[key][0] for key in keys)), rows, left=(what,))
