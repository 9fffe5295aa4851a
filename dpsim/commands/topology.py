"""``dpsim topology``: draw or list the cluster of a scenario, with links by load."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from dpsim.base.errors import DpsimError
from dpsim.base.terminal import save, show, show_answer
from dpsim.commands.options import File, Json, Sets, read_option

Html = Annotated[
    Path | None,
    typer.Option(help="Write the picture to this file, as a self-contained page."),
]
CollectiveBytes = Annotated[
    str | None,
    typer.Option(
        metavar="SIZE",
        help="Show the load of one collective of this size (100MB); of one step if left out.",
    ),
]
Top = Annotated[int, typer.Option(min=1, max=100_000, help="Number of most loaded links to list.")]


def topology(
    file: File,
    html: Html = None,
    collective_bytes: CollectiveBytes = None,
    set_: Sets = None,
    top: Top = 20,
    as_json: Json = False,
) -> None:
    """Show a scenario's cluster and which links carry most: as a picture, a table or JSON.

    Example: dpsim topology scenarios/quickstart.yaml --html topology.html --collective-bytes 100MB
    """
    from dpsim.engine import busiest_links, check_length, link_loads, prepare
    from dpsim.scenario import load_scenario

    nbytes = None if collective_bytes is None else _size(collective_bytes)
    scenario = load_scenario(file, set_ or ())
    # Checked before anything is built, which takes long for too many workers.
    check_length(scenario)
    job = prepare(scenario)
    loads = link_loads(job, nbytes)
    if html is not None:
        from dpsim.report.figures.topology_figure import topology_figure
        from dpsim.report.pages.document import figures_page

        figure = topology_figure(job.network, loads, scenario.name)
        save(html, figures_page(f"links of {scenario.name}", [figure]))
    if as_json:
        show_answer(
            "topology",
            name=scenario.name,
            what=loads.what,
            time_s=loads.time_s,
            nodes=job.cluster.nodes,
            ranks=job.cluster.ranks,
            links_total=len(loads.bytes),
            links_loaded=int((loads.bytes > 0).sum()),
            links=busiest_links(job.network, loads, top),
        )
    # The picture shows the table's content.
    elif html is None:
        from dpsim.report.text.tables import links_table

        show(links_table(scenario.name, loads, busiest_links(job.network, loads, top)))


def _size(text: str) -> int:
    from dpsim.studies.collective import parse_size

    size = read_option("--collective-bytes", parse_size, text)
    if size < 1:
        raise DpsimError(f"--collective-bytes: must be above 0, but got {text!r}")
    return size
