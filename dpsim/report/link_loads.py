"""What each link of a cluster carries in one step, or in one collective of a given size."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from dpsim.base.arrays import FloatArray
from dpsim.base.budget import limited
from dpsim.base.units import DATA, RATE, TIME, human
from dpsim.engine import Job
from dpsim.topology import Cluster

if TYPE_CHECKING:
    from rich.table import Table


@dataclass(frozen=True, slots=True, eq=False)
class LinkLoads:
    """Bytes that each capacity of a cluster carries while ``what`` communicates, and the seconds
    that this takes.
    """

    what: str
    bytes: FloatArray
    time_s: float

    def utilisation(self, capacities: FloatArray) -> FloatArray:
        """The share of each capacity (B/s) that is used during ``time_s``, from 0 to 1."""
        if self.time_s <= 0:
            return np.zeros(len(capacities))
        return np.asarray(self.bytes / (capacities * self.time_s))


@limited()
def link_loads(job: Job, nbytes: int | None = None) -> LinkLoads:
    """The loads of one collective of ``nbytes`` bytes, or of all of a step's operations, each alone
    on the cluster.

    All ranks enter together; the operations of a step run one after another, without computation in
    between.
    """
    calls = job.calls_of["gradients"] or job.calls_of["models"]
    sent = [(job.collective(name), size) for call in calls for name, size in call.stages]
    if not sent:
        return LinkLoads("no communication: one worker", np.zeros(len(job.network.capacities)), 0.0)
    if nbytes is not None:
        sent = [(sent[0][0], nbytes)]
    outcomes = [model.finish(np.zeros(job.workers), size) for model, size in sent]
    algorithm = ", ".join(sorted({model.algorithm_for(size) for model, size in sent}))
    amount = human(sum(size for _, size in sent), DATA, 3)
    what = (
        f"one step's {amount} in {len(sent)} operations"
        if nbytes is None
        else f"one operation of {amount}"
    )
    loads = np.zeros(len(job.network.capacities))
    for outcome in outcomes:
        loads += job.on_links(outcome)
    return LinkLoads(
        f"{what} ({algorithm})", loads, sum(float(outcome.finishes.max()) for outcome in outcomes)
    )


def busiest_links(
    cluster: Cluster, loads: LinkLoads, most: int | None = None
) -> list[dict[str, Any]]:
    """The links (and devices with a limit of their own) by utilisation, highest first; those that
    carry nothing are left out.
    """
    capacities = cluster.capacities
    shares = loads.utilisation(capacities)
    order = np.argsort(-shares.round(9), kind="stable")  # equal links in the order of their numbers
    loaded = order[loads.bytes[order] > 0][:most]
    return [
        {
            "link": cluster.link_name(int(link)),
            "rate_Bps": float(capacities[link]),
            "bytes": float(loads.bytes[link]),
            "utilisation": float(shares[link]),
        }
        for link in loaded
    ]


def links_table(name: str, loads: LinkLoads, links: list[dict[str, Any]]) -> Table:
    """The most used links, for a terminal."""
    from rich.table import Table

    title = f"{name}: links under {loads.what}, which takes {human(loads.time_s, TIME)}"
    table = Table(title=title, title_justify="left", show_edge=False)
    table.add_column("link")
    for heading in ("rate", "carries", "of its rate"):
        table.add_column(heading, justify="right")
    for link in links:
        table.add_row(
            link["link"],
            human(link["rate_Bps"], RATE),
            human(link["bytes"], DATA),
            f"{link['utilisation']:.1%}",
        )
    return table
