"""The fastest algorithm and protocol of NCCL, as a table for a terminal."""

from __future__ import annotations

from rich.table import Table

from dpsim.base.terminal import table
from dpsim.studies.nccl_choices import NcclChoices


def nccl_choices_table(found: NcclChoices) -> Table:
    """Return a row for each range of sizes."""
    title = f"NCCL's {found.operation} of {found.ranks} ranks on {found.nodes} nodes"
    headings = ("from (B)", "to (B)", "fastest", "NCCL's own choice", "less time by up to")
    rows = (
        (
            f"{row.smallest:,}",
            f"{row.largest:,}",
            f"{row.algorithm}/{row.protocol}",
            row.nccl,
            f"{row.gain:.0%}" if row.gain else "",
        )
        for row in found.rows
    )
    return table(title, headings, rows, left=headings[2:4])
