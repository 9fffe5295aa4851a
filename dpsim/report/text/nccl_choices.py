"""The fastest algorithm and protocol of NCCL, as a table for a terminal."""

from __future__ import annotations

from rich.table import Table

from dpsim.studies.nccl_choices import NcclChoices


def nccl_choices_table(found: NcclChoices) -> Table:
    """Return a row for each range of sizes."""
    title = f"NCCL's {found.operation} of {found.ranks} ranks on {found.nodes} nodes"
    table = Table(title=title, title_justify="left", show_edge=False)
    for heading in ("from (B)", "to (B)"):
        table.add_column(heading, justify="right")
    table.add_column("fastest")
    table.add_column("NCCL's own choice")
    table.add_column("less time by up to", justify="right")
    for row in found.rows:
        fastest = f"{row.algorithm}/{row.protocol}"
        gain = f"{row.gain:.0%}" if row.gain else ""
        table.add_row(f"{row.smallest:,}", f"{row.largest:,}", fastest, row.nccl, gain)
    return table
